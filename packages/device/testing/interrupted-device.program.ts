/**
 * A device in a process of its own, for a test that kills it. Arguments: the ledger's path, the ring's JSON. Prints
 * `acting` from inside the handler, which counts its starts in `<ledger>.acted` and then never ends.
 */
import { appendFileSync } from "node:fs";
import { createDevice } from "../src/device.ts";
import { openFileLedger } from "../src/node/file-ledger.ts";

const [path = "", ring] = process.argv.slice(2);
const device = createDevice({
  id: "phone-7",
  ledger: await openFileLedger(path),
  handlers: {
    "message.send": () => {
      appendFileSync(`${path}.acted`, "once\n");
      process.stdout.write("acting\n");
      return new Promise(() => {});
    },
  },
});
await device.handleRing(ring);
