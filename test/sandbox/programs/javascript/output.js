// The input is "1 2 3".
function streams_by_path() {
  works('readFileSync of /dev/stdin', () => fs.readFileSync('/dev/stdin', 'utf8') === '1 2 3');
  for (const path of ['/dev/stdout', '/dev/stderr']) works(path, () => fs.writeFileSync(path, `OK ${path}\n`) === undefined);
}

function streams_of_others() {
  must_fail('stdin of init', () => fs.openSync('/proc/1/fd/0', 'r+'));
  for (const stream of [0, 1, 2]) must_fail('owner of a pipe', () => fs.chownSync(`/dev/fd/${stream}`, 0, 0));
}
