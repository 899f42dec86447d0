#include <cstdio>

int main() {
  int n;
  double sum = 0, x;
  if (std::scanf("%d", &n) != 1) return 1;
  for (int i = 0; i < n; i++)
    if (std::scanf("%lf", &x) == 1) sum += x;
  std::printf("%.15E\n", sum / n);
}
