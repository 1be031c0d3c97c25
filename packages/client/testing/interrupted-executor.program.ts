/** An executor whose tool never ends, for the test that kills it: `<mesh> <ledger file> <what the tool does>`. */
import { createClient, createExecutor } from "../src/index.ts";
import { openFileCallLedger } from "../src/node/index.ts";

const [url = "", ledgerFile = "", act = "hang"] = process.argv.slice(2);

const executor = createExecutor({
  ledger: await openFileCallLedger(ledgerFile),
  tools: {
    act: {
      description: "Acts.",
      parameters: {},
      run: () => (act === "hang" ? new Promise(() => {}) : "acted"),
    },
  },
  onEvent: ({ type }) => console.log(type),
});
await executor.serveRun(createClient({ url }).run("r"));
