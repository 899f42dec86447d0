import t from 'tap';
import { isLoopback, parseAddress, specialRange } from '../../src/webhooks/address.ts';

const rangeOf = (text: string) => specialRange(parseAddress(text)!);

t.test('every canonical spelling gives its bits', async (t) => {
  const bits = (text: string) => parseAddress(text)?.bits;
  t.equal(bits('1.2.3.4'), 0x01020304n);
  t.equal(bits('::'), 0n);
  t.equal(bits('1::'), 1n << 112n);
  t.equal(bits('::1:2'), 0x10002n);
  t.equal(bits('1:2:3:4:5:6:7:8'), 0x00010002000300040005000600070008n);
  t.equal(bits('1:2:3:4:5:6:1.2.3.4'), 0x00010002000300040005000601020304n);
  t.equal(bits('fe80::1.2.3.4'), (0xfe80n << 112n) | 0x01020304n);
});

t.test('other spellings are not addresses', async (t) => {
  for (const text of ['', '127.1', '0x7f.0.0.1', '010.0.0.1', 'fe80::1%eth0', '[::1]', '1:2:3']) {
    t.equal(parseAddress(text), null, JSON.stringify(text));
  }
});

t.test('loopback is 127.0.0.0/8 and ::1', async (t) => {
  for (const text of ['127.0.0.0', '127.8.9.1', '127.255.255.255', '::1']) {
    t.ok(isLoopback(parseAddress(text)!), text);
  }
  for (const text of ['126.255.255.255', '128.0.0.0', '::', '::2', '::ffff:127.0.0.1']) {
    t.notOk(isLoopback(parseAddress(text)!), text);
  }
});

t.test('an ordinary address is in no special range', async (t) => {
  for (const text of ['93.184.216.34', '2606:4700:4700::1111', '2a00:1450:4001:81b::200e']) {
    t.equal(rangeOf(text), null, text);
  }
});

t.test('IPv6 is blocked outside 2000::/3, even where no range is listed', async (t) => {
  for (const text of ['1fff:ffff::1', '4000::', 'abcd::1']) {
    t.equal(rangeOf(text), 'not global unicast', text);
  }
  t.equal(rangeOf('2000::'), null, 'the first address of 2000::/3');
  t.equal(rangeOf('3ffe:ffff::1'), null);
});

t.test('an IPv6 address that carries an IPv4 address is special', async (t) => {
  t.equal(rangeOf('::ffff:1.2.3.4'), 'IPv4-mapped');
  t.equal(rangeOf('::ffff:0:1.2.3.4'), 'IPv4-translated');
  t.equal(rangeOf('64:ff9b::1.2.3.4'), 'NAT64');
  t.equal(rangeOf('2002:102:304::'), '6to4');
  t.equal(rangeOf('2001:0:102:304::'), 'Teredo');
  t.equal(rangeOf('2606:4700::5efe:1.2.3.4'), 'ISATAP');
  t.equal(rangeOf('2606:4700::200:5efe:1.2.3.4'), 'ISATAP');
  t.equal(rangeOf('2606:4700::201:5efe:1.2.3.4'), null, 'another interface identifier');
});
