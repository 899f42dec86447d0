/** A process with a network of one machine, until it is killed. It says by which id their names begin. */
import { makeNetwork } from './network.ts';

const { within } = makeNetwork({ teardown() {} }).machine();
process.send!(/\/rln(\w+)-/.exec(within[1]!)![1]);
process.once('disconnect', () => process.exit());
