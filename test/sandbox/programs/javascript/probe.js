// What every JavaScript program of the suite begins with; see ../cpp/probe.hpp for what the lines mean. The runner
// puts the file of a topic behind this one, and a call of the program that the case names behind that.
const fs = require('node:fs');
const say = (line) => fs.writeSync(1, `${line}\n`);
const nameOf = (error) => error?.code ?? error?.name ?? String(error);
const args = process.argv.slice(2);

function refused(what, attempt) {
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
