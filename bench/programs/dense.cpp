#include <bits/stdc++.h>
using namespace std;
using ll = long long; using vi = vector<int>; using pii = pair<int, int>;
struct Dsu { vi p, s; Dsu(int n) : p(n), s(n, 1) { iota(p.begin(), p.end(), 0); }
  int find(int x) { while (p[x] != x) x = p[x] = p[p[x]]; return x; }
  bool join(int a, int b) { a = find(a); b = find(b); if (a == b) return false; if (s[a] < s[b]) swap(a, b); p[b] = a; s[a] += s[b]; return true; } };
struct Seg { int n; vector<ll> t; Seg(int n) : n(n), t(2 * n) {}
  void set(int i, ll v) { for (t[i += n] = v; i > 1; i >>= 1) t[i >> 1] = t[i] + t[i ^ 1]; }
  ll sum(int l, int r) { ll s = 0; for (l += n, r += n; l < r; l >>= 1, r >>= 1) { if (l & 1) s += t[l++]; if (r & 1) s += t[--r]; } return s; } };
template <class T> struct Mat { array<array<T, 2>, 2> a{}; Mat operator*(const Mat &o) const { Mat r; for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) for (int k = 0; k < 2; k++) r.a[i][j] = (r.a[i][j] + a[i][k] * o.a[k][j]) % 1000000007; return r; } };
template <class T> T power(T b, ll e) { T r; r.a[0][0] = r.a[1][1] = 1; for (; e; e >>= 1, b = b * b) if (e & 1) r = r * b; return r; }
mt19937_64 rng(12345);
ll dijkstra(int n) {
  vector<vector<pii>> g(n); for (int i = 0; i + 1 < n; i++) { g[i].emplace_back(i + 1, 3); g[i].push_back({(i * 7) % n, 5}); }
  vector<ll> d(n, LLONG_MAX); priority_queue<pair<ll, int>, vector<pair<ll, int>>, greater<>> q; q.emplace(d[0] = 0, 0);
  while (!q.empty()) { auto [w, u] = q.top(); q.pop(); if (w > d[u]) continue; for (auto [v, c] : g[u]) if (d[v] > w + c) q.emplace(d[v] = w + c, v); }
  return accumulate(d.begin(), d.end(), 0LL, [](ll a, ll b) { return b == LLONG_MAX ? a : a + b; });
}
ll strings() {
  map<string, vi> index; unordered_map<string, int> count; set<string> seen; string word; stringstream in("the quick brown fox jumps over the lazy dog and the cat");
  for (int i = 0; in >> word; i++) { index[word].push_back(i); count[word]++; seen.insert(word); reverse(word.begin(), word.end()); seen.emplace(word); }
  ll h = 0; for (auto &[w, at] : index) h = h * 31 + w.size() * at.size() + count[w];
  vector<string> all(seen.begin(), seen.end()); sort(all.begin(), all.end(), [](const string &a, const string &b) { return make_tuple(a.size(), a) < make_tuple(b.size(), b); });
  return h + (ll)all.front().size() + (ll)(lower_bound(all.begin(), all.end(), string("fox")) - all.begin());
}
ll numbers() {
  vi v(1000); generate(v.begin(), v.end(), [] { return (int)(rng() % 1000); }); vi w = v; stable_sort(w.begin(), w.end(), greater<int>());
  w.erase(unique(w.begin(), w.end()), w.end()); nth_element(v.begin(), v.begin() + 500, v.end());
  multiset<int> m(v.begin(), v.end()); deque<int> q; list<int> l(v.begin(), v.begin() + 10); ll best = 0; for (int i = 0; i < 1000; i++) { while (!q.empty() && v[q.back()] < v[i]) q.pop_back(); q.push_back(i); if (q.front() + 50 <= i) q.pop_front(); best += v[q.front()]; }
  l.sort(); l.unique(); bitset<2000> bits; for (int x : v) bits.set(x); partial_sum(w.begin(), w.end(), w.begin());
  return best > 0 ? (ll)(bits.count() > 0) + (ll)(m.size() == 1000) + (ll)(!l.empty()) + (ll)is_sorted(l.begin(), l.end()) + (w.back() > 0) : 0;
}
ll lis(const vi &a) {
  vi t; for (int x : a) { auto it = lower_bound(t.begin(), t.end(), x); if (it == t.end()) t.push_back(x); else *it = x; } return t.size();
}
ll knapsack() {
  vector<array<int, 2>> items; for (int i = 1; i <= 30; i++) items.push_back({i, i * i % 17}); vector<ll> dp(101); for (auto [w, v] : items) for (int c = 100; c >= w; c--) dp[c] = max(dp[c], dp[c - w] + v); return dp[100];
}
vector<string> split(const string &s, char c) {
  vector<string> r; string part; istringstream in(s); while (getline(in, part, c)) r.push_back(part); return r;
}
ll tree() {
  int n = 200; vector<vi> g(n); for (int i = 1; i < n; i++) g[i / 2].push_back(i); vector<ll> size(n, 1); function<ll(int)> dfs = [&](int u) { for (int v : g[u]) size[u] += dfs(v); return size[u]; };
  return dfs(0);
}
ll permutations() {
  string s = "abcde"; ll n = 0; do n += s[0] < s[4]; while (next_permutation(s.begin(), s.end())); return n;
}
optional<ll> divide(ll a, ll b) {
  if (b == 0) return nullopt; return a / b;
}
ll variants() {
  vector<variant<int, string, double>> v{1, string("two"), 3.0}; ll n = 0; for (auto &x : v) n += visit([](auto &&y) -> ll { using T = decay_t<decltype(y)>; if constexpr (is_same_v<T, string>) return y.size(); else return (ll)y; }, x); return n;
}
ll sieve(int n) {
  vector<bool> c(n + 1); ll k = 0; for (int i = 2; i <= n; i++) if (!c[i]) { k++; for (ll j = (ll)i * i; j <= n; j += i) c[j] = true; } return k;
}
ll pointers() {
  vector<unique_ptr<pii>> v; for (int i = 0; i < 10; i++) v.push_back(make_unique<pii>(i, i * i)); auto s = make_shared<vi>(10, 1); return accumulate(v.begin(), v.end(), 0LL, [](ll a, auto &p) { return a + p->second; }) + s.use_count();
}
int main() {
  ios::sync_with_stdio(false); cin.tie(nullptr);
  Dsu d(50); int joined = 0; for (int i = 0; i < 100; i++) joined += d.join(i % 50, (i * i + 1) % 50);
  Seg s(64); for (int i = 0; i < 64; i++) s.set(i, i * i);
  Mat<ll> m; m.a = {{{1, 1}, {1, 0}}};
  vi a{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}; auto parts = split("a,b,c,d", ',');
  cout << (joined > 0) << ' ' << s.sum(3, 40) << ' ' << power(m, 90).a[0][1] << ' ' << (dijkstra(100) > 0) << ' ' << (strings() != 0) << '\n';
  cout << numbers() << ' ' << lis(a) << ' ' << (knapsack() > 0) << ' ' << parts.size() << ' ' << tree() << ' ' << permutations() << '\n';
  cout << divide(7, 2).value_or(-1) << ' ' << divide(1, 0).value_or(-1) << ' ' << variants() << ' ' << sieve(1000) << ' ' << pointers() << '\n';
}
