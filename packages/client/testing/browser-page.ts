/** A web page that executes tools: the program of the page that the browser test opens. */
import { createClient, createExecutor, type ExecutorEvent, openBrowserCallLedger } from "../src/index.ts";

export interface PageExecutor {
  readonly events: readonly ExecutorEvent["type"][];
  /** How often the tool of this page was run. */
  readonly ran: number;
}

declare global {
  /** Attaches to the conversation and resolves when the stream is open. `hang`: the tool never ends. */
  var attach: (options: { readonly sessionId: string; readonly hang?: boolean }) => Promise<void>;
  /** Answers a run until it has ended; resolves with its status. */
  var serveRun: (runId: string) => Promise<string>;
  var pageExecutor: PageExecutor;
}

const client = createClient({ url: location.origin });
const events: ExecutorEvent["type"][] = [];
let ran = 0;

globalThis.pageExecutor = {
  events,
  get ran() {
    return ran;
  },
};

async function newExecutor(hang: boolean) {
  const run = (args: Readonly<Record<string, unknown>>) => {
    ran += 1;
    document.body.append(String(args.text));
    return hang ? new Promise(() => {}) : { shown: document.body.textContent };
  };
  const tool = { description: "Shows a text.", parameters: { type: "object" }, run };
  return createExecutor({
    tools: { device_show: tool, show: tool },
    ledger: await openBrowserCallLedger(),
    onEvent: ({ type }) => events.push(type),
  });
}

globalThis.attach = async ({ sessionId, hang = false }) => {
  await (await newExecutor(hang)).attach(client.session(sessionId));
};

globalThis.serveRun = async (runId) => (await (await newExecutor(false)).serveRun(client.run(runId))).status;
