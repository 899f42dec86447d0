/** Compiles the suite's programs for a guest machine, which is slow and cannot write to the host's files. */
import { findToolchains } from '../../src/executor/toolchains.ts';
import { preparePrograms } from './programs.ts';

const { java } = await findToolchains();
await preparePrograms({ java: java?.home ?? null });
