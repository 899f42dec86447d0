// The start of every JavaScript program of the suite; ../cpp/probe.hpp explains the lines. The runner appends the file
// of the topic and a call of the program.
const fs = require('node:fs');
const say = (line) => fs.writeSync(1, `${line}\n`);
const nameOf = (error) => error?.code ?? error?.name ?? String(error);
const args = process.argv.slice(2);

function must_fail(what, attempt) {
  let result;
  try {
    result = attempt();
  } catch (error) {
    say(`DENIED ${what} ${nameOf(error)}`);
    return;
  }
  say(`ESCAPED ${what} ${String(result).slice(0, 100)}`);
}

function works(what, attempt) {
  try {
    say(attempt() === false ? `FAILED ${what}` : `OK ${what}`);
  } catch (error) {
    say(`FAILED ${what} ${nameOf(error)}`);
  }
}
