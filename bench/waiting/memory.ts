/** How much memory a process needs, garbage aside: it is told to collect over the inspector's protocol, then read. */
import { freePort } from "../lib/free-port.ts";
import { rssMbOf } from "../lib/machine.ts";

export interface Memory {
  /** Live objects of JavaScript. */
  readonly heapMb: number;
  /** Resident memory of the process after the collection. */
  readonly rssMb: number;
  /** Before it: what a process that was busy a moment ago shows to its operator. */
  readonly rssBeforeMb: number;
}

/** The first collection finds what the second can free, such as finished finalizers. */
const COLLECTIONS = 2;

export interface Inspector {
  /** For the command line of the process. */
  readonly argument: string;
  measure(pid: number): Promise<Memory>;
}

export async function createInspector(): Promise<Inspector> {
  const port = await freePort();
  return {
    argument: `--inspect=127.0.0.1:${port}`,
    async measure(pid) {
      const rssBeforeMb = rssMbOf(pid);
      const session = await connect(port);
      try {
        for (let count = 0; count < COLLECTIONS; count++) await session.call("HeapProfiler.collectGarbage");
        const usage = await session.call("Runtime.getHeapUsage");
        return { heapMb: Number(usage.usedSize) / 1024 ** 2, rssMb: rssMbOf(pid), rssBeforeMb };
      } finally {
        session.close();
      }
    },
  };
}

interface Session {
  call(method: string): Promise<Record<string, unknown>>;
  close(): void;
}

/** https://chromedevtools.github.io/devtools-protocol/ */
async function connect(port: number): Promise<Session> {
  const targets: { webSocketDebuggerUrl: string }[] = await (await fetch(`http://127.0.0.1:${port}/json/list`)).json();
  const socket = new WebSocket(targets[0]?.webSocketDebuggerUrl ?? "");
  const waiting = new Map<number, (result: Record<string, unknown>) => void>();
  socket.addEventListener("message", ({ data }) => {
    const { id, result } = JSON.parse(String(data));
    waiting.get(id)?.(result);
    waiting.delete(id);
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve, { once: true });
    socket.addEventListener("error", () => reject(new Error(`no inspector on port ${port}`)), { once: true });
  });
  let id = 0;
  return {
    call: (method) =>
      new Promise((resolve) => {
        waiting.set(++id, resolve);
        socket.send(JSON.stringify({ id, method }));
      }),
    close: () => socket.close(),
  };
}
