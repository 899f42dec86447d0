const { execFileSync } = require('node:child_process');

function read_paths() {
  for (const path of args)
    must_fail(path, () => {
      const { length } = fs.readFileSync(path);
      if (length === 0) throw new Error('empty');
      return length;
    });
}

function require_paths() {
  for (const path of args) must_fail(path, () => require(path));
}

function read_own() {
  works('/etc/passwd', () => fs.readFileSync('/etc/passwd').length > 0);
  works('its source', () => fs.readFileSync(__filename, 'utf8').includes('read_own'));
}

function installation() {
  const seen = [process.execPath, ...process.execArgv, ...process.argv.slice(0, 2), __dirname, process.env.PATH];
  const shown = args.filter((word) => seen.join(' ').includes(word));
  say(`${shown.length ? 'ESCAPED' : 'DENIED'} words of the host in its own paths ${shown}`);
  const beside = fs.readdirSync('/opt/node').filter((name) => name !== 'node');
  say(`${beside.length ? 'ESCAPED' : 'DENIED'} files beside Node ${beside}`);
  must_fail('node_modules', () => require.resolve('pg'));
}

function runs_node() {
  works('Node', () => execFileSync(process.execPath, ['--version'], { encoding: 'utf8' }).startsWith('v'));
}

function create_in() {
  for (const folder of args) must_fail(folder, () => fs.writeFileSync(`${folder}/planted`, 'x'));
}

function create_own() {
  for (const folder of ['/box', '/tmp']) works(folder, () => fs.writeFileSync(`${folder}/own`, 'x'));
}

function replace_node() {
  must_fail('write', () => fs.writeFileSync(process.execPath, 'x'));
  must_fail('unlink', () => fs.unlinkSync(process.execPath));
  must_fail('rename', () => fs.renameSync('/opt/node', '/opt/other'));
  must_fail('preload', () => fs.writeFileSync('/opt/blocking_output.cjs', 'x'));
}
