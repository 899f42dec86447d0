const { execFileSync } = require('node:child_process');

function read_paths() {
  for (const path of args)
    refused(path, () => {
      const { length } = fs.readFileSync(path);
      if (length === 0) throw new Error('empty');
      return length;
    });
}

function require_paths() {
  for (const path of args) refused(path, () => require(path));
}

function read_own() {
  works('/etc/passwd', () => fs.readFileSync('/etc/passwd').length > 0);
  works('its source', () => fs.readFileSync(__filename, 'utf8').includes('read_own'));
}

function installation() {
  const seen = [process.execPath, ...process.execArgv, ...process.argv.slice(0, 2), __dirname, process.env.PATH];
  const told = args.filter((word) => seen.join(' ').includes(word));
  say(`${told.length ? 'ESCAPED' : 'DENIED'} words of the host in its own paths ${told}`);
  const beside = fs.readdirSync('/opt/node').filter((name) => name !== 'node');
  say(`${beside.length ? 'ESCAPED' : 'DENIED'} files beside Node ${beside}`);
  refused('node_modules', () => require.resolve('pg'));
}

function runs_node() {
  works('Node', () => execFileSync(process.execPath, ['--version'], { encoding: 'utf8' }).startsWith('v'));
}

function create_in() {
  for (const folder of args) refused(folder, () => fs.writeFileSync(`${folder}/planted`, 'x'));
}

function create_own() {
  for (const folder of ['/box', '/tmp']) works(folder, () => fs.writeFileSync(`${folder}/own`, 'x'));
}

function replace_node() {
  refused('write', () => fs.writeFileSync(process.execPath, 'x'));
  refused('unlink', () => fs.unlinkSync(process.execPath));
  refused('rename', () => fs.renameSync('/opt/node', '/opt/other'));
  refused('preload', () => fs.writeFileSync('/opt/blocking_output.cjs', 'x'));
}
