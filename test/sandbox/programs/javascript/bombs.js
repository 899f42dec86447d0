const { spawn, execFileSync } = require('node:child_process');
const { Worker } = require('node:worker_threads');

function fork_count() {
  const more = (count) => {
    if (count === 1000) return say('ESCAPED spawn 1000');
    const child = spawn('/usr/bin/sleep', ['60'], { stdio: 'ignore' });
    child.on('error', (error) => {
      say(`DENIED spawn ${nameOf(error)} after ${count}`);
      process.exit(0);
    });
    child.on('spawn', () => more(count + 1));
  };
  more(0);
}

function fork_few() {
  works('child', () => execFileSync(process.execPath, ['-p', '6 * 7'], { encoding: 'utf8' }) === '42\n');
}

function worker_count() {
  const more = (count) => {
    if (count === 1000) return say('ESCAPED worker 1000');
    const end = (error) => {
      say(`DENIED worker ${nameOf(error)} after ${count}`);
      process.exit(0);
    };
    let worker;
    try {
      worker = new Worker('require("worker_threads").parentPort.on("message", () => {})', { eval: true });
    } catch (error) {
      return end(error);
    }
    worker.on('error', end);
    worker.on('online', () => more(count + 1));
  };
  more(0);
}

function worker_few() {
  const worker = new Worker('require("worker_threads").parentPort.postMessage(6 * 7)', { eval: true });
  worker.on('message', (answer) => works('worker', () => answer === 42));
}

function heap() {
  const all = [];
  for (;;) all.push(`${all.length}`.repeat(1000));
}

function buffers() {
  const all = [];
  for (;;) all.push(Buffer.alloc(1 << 20, 1));
}

function wasm_memory() {
  const all = [];
  for (;;) {
    const memory = new WebAssembly.Memory({ initial: 1024 });
    new Uint8Array(memory.buffer).fill(1);
    all.push(memory);
  }
}

// A heap larger than the flag that the service gives: flags can be changed, the group's limit cannot.
function own_flags() {
  const code = 'const all = []; for (;;) all.push(new Array(1000).fill(0.5));';
  execFileSync(process.execPath, ['--max-old-space-size=8000', '-e', code], { stdio: 'inherit' });
}

function memory_some() {
  works('64 MiB', () => Buffer.alloc(64 << 20, 1).at(-1) === 1);
}
