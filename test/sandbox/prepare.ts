/** Compiles the suite's programs for a guest machine, which is slow and cannot write to the host's files. */
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { preparePrograms } from './programs.ts';

const { toolchains } = await findToolchains();
await preparePrograms({ java: toolchains.get('java')?.at ?? null });
