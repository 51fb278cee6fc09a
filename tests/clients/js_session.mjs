// One session of the official JavaScript SDK: over HTTP, or over stdio through the shim.
// Arguments: http URL KEY, or stdio COMMAND [ARGUMENTS]; prints one JSON object.
// Runs in the folder of node modules, from where the packages are found.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const resolve = createRequire(process.cwd() + '/').resolve
const load = (name) => import(pathToFileURL(resolve('@modelcontextprotocol/sdk/' + name)))
const { Client } = await load('client/index.js')
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js')
const { StdioClientTransport } = await load('client/stdio.js')

const [kind, ...rest] = process.argv.slice(2)
const transport =
  kind === 'http'
    ? new StreamableHTTPClientTransport(new URL(rest[0]), {
        requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } },
      })
    : new StdioClientTransport({ command: rest[0], args: rest.slice(1) })

const client = new Client({ name: 'js-session', version: '1.0.0' })
await client.connect(transport)
const call = (name, args = {}) => client.callTool({ name, arguments: args })
const text = `The JavaScript client over ${kind} keeps gooseberries`
const answers = {
  tools: (await client.listTools()).tools.map((tool) => tool.name),
  prompts: (await client.listPrompts()).prompts,
  resources: (await client.listResources()).resources,
  identity: await call('get_mcp_identity'),
  remember: await call('remember', { content: text, path: `clients/js-${kind}` }),
  recall: await call('recall', { query: 'gooseberries' }),
  search_memory: await call('search_memory', { query: 'gooseberries' }),
  unknown: await call('no_such_tool').then(
    (result) => ({ result }),
    (error) => ({ error: String(error) }),
  ),
}
await client.close()
console.log(JSON.stringify(answers))
