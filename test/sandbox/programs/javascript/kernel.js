const { spawn, execFileSync } = require('node:child_process');

// What Node hides from programs is no boundary: behind it is the same box.
function internals() {
  const binding = (name) => {
    try {
      return process.binding(name);
    } catch {
      return null;
    }
  };
  const spawned = binding('spawn_sync');
  const stdio = [1, 1, 2].map((fd) => ({ type: 'fd', fd }));
  const options = { file: '/bin/cat', args: ['cat', ...args], envPairs: [], stdio };
  const status = spawned?.spawn(options).status;
  say(status === 0 ? 'ESCAPED by process.binding' : `DENIED process.binding ${status}`);
}

function addon() {
  fs.writeFileSync('addon.node', 'not an addon');
  must_fail('dlopen', () => process.dlopen({ exports: {} }, '/box/addon.node'));
  must_fail('dlopen of the host', () => process.dlopen({ exports: {} }, args[0]));
}

function kill_others() {
  must_fail('init', () => {
    process.kill(1, 'SIGKILL');
    process.kill(1, 0);
    throw Object.assign(new Error(), { code: 'it lives' });
  });
}

function kill_own() {
  const child = spawn('/usr/bin/sleep', ['60'], { stdio: 'ignore' });
  child.on('exit', (_, signal) => works('kill of a child', () => signal === 'SIGKILL'));
  child.on('spawn', () => child.kill('SIGKILL'));
}

function become_root() {
  for (const call of ['setuid', 'seteuid', 'setgid', 'setegid']) must_fail(call, () => process[call](0));
  must_fail('setgroups', () => process.setgroups([0]));
}

function who_am_i() {
  works('an ordinary user', () => process.getuid() !== 0 && process.getgid() !== 0);
}

function daemon_left() {
  spawn('/usr/bin/sleep', ['60'], { stdio: 'ignore', detached: true }).unref();
  spawn(process.execPath, ['-e', 'process.on("SIGTERM", () => {}); setTimeout(() => {}, 60000)'], { stdio: 'ignore', detached: true }).unref();
  say('OK daemons are left');
}

function processes_seen() {
  const own = [1, process.pid, process.ppid];
  const others = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name) && !own.includes(Number(name)));
  say(`${others.length ? 'ESCAPED' : 'DENIED'} ${others.length} processes of others`);
}

// V8's own commands, unlocked: they may crash the process, and nothing else.
function natives() {
  require('node:v8').setFlagsFromString('--allow-natives-syntax');
  new Function('%SystemBreak()')();
}

function optimised() {
  const add = (a, b) => a + b;
  let sum = 0;
  for (let i = 0; i < 1e7; i++) sum = add(sum, i);
  works('compiled code', () => sum === 49999995000000);
}
