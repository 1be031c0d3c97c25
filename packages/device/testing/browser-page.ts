/** A web page that is a device: the program of the page that the browser test opens. */
import type { MeshKey } from "@leafmesh/protocol";
import { connectDirect, createDevice, type DeviceEvent, type Ledger, openBrowserLedger } from "../src/index.ts";

export interface PageOptions {
  readonly directUrl: string;
  readonly token: string;
  readonly keys: readonly MeshKey[];
}

export interface PageDevice {
  readonly events: readonly DeviceEvent[];
  /** How often the handlers of this page were called. */
  readonly acted: number;
}

declare global {
  var startDevice: (options: PageOptions) => Promise<void>;
  var openLedger: (maxRecords?: number) => Promise<Ledger>;
  var pageDevice: PageDevice;
}

const events: DeviceEvent[] = [];
let acted = 0;

globalThis.pageDevice = {
  events,
  get acted() {
    return acted;
  },
};

globalThis.startDevice = async ({ directUrl, token, keys }) => {
  const device = createDevice({
    id: "phone-7",
    ledger: await openBrowserLedger(),
    meshKeys: keys,
    capabilities: [{ name: "battery.read" }, { name: "hang" }],
    handlers: {
      "battery.read": () => {
        acted += 1;
        return { level: 71, browser: navigator.userAgent.includes("Chrom") };
      },
      hang: () => {
        acted += 1;
        return new Promise(() => {});
      },
    },
    approve: ({ mesh, signal }) => ask(`Allow ${mesh} to connect?`, signal),
    onEvent: (event) => events.push(event),
  });
  const connection = connectDirect({
    url: directUrl,
    id: "phone-7",
    token,
    onRing: (ring) => void device.handleRing(ring, "direct"),
  });
  await connection.ready();
};

globalThis.openLedger = (maxRecords) =>
  openBrowserLedger({ name: crypto.randomUUID(), ...(maxRecords === undefined ? {} : { maxRecords }) });

function ask(question: string, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    dialog.open = true;
    dialog.append(question);
    for (const [label, answer] of [["Allow", true] as const, ["Don't allow", false] as const]) {
      const button = document.createElement("button");
      button.textContent = label;
      button.onclick = () => {
        dialog.remove();
        resolve(answer);
      };
      dialog.append(button);
    }
    signal.addEventListener("abort", () => dialog.remove());
    document.body.append(dialog);
  });
}
