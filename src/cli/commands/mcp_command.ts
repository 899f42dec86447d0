/** `./runledger mcp`: the API as tools of the Model Context Protocol, on stdin and stdout. */
import { clientOf, SERVER_OPTION } from '../api_client.ts';
import type { Command } from '../command.ts';

export const command: Command = {
  summary: 'offer the API as tools to a program that speaks MCP, on stdin and stdout',
  options: { server: SERVER_OPTION },
  example: 'mcp --server http://127.0.0.1:8080',
  async run(context) {
    const client = clientOf(context);
    // Loaded here, because the overview of commands loads this file, and the library takes some time.
    const { serveTools } = await import('../mcp_tools.ts');
    await serveTools(client);
    return 0;
  },
};
