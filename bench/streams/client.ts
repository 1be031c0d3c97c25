/**
 * Holds `COUNT` event streams at `URL` and says when they are open; then, for each message that has reached all of them, when
 * the last one had it. A process of its own, so that its sockets are not counted as the server's.
 */
import { Agent, get } from "node:http";

const AT_A_TIME = 100;
const url = process.env.URL ?? "";
const count = Number(process.env.COUNT);
const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
/** A message's number → streams that it has not reached. */
const missing = new Map<number, number>();

function open(): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`a stream was refused: ${response.statusCode}`));
      response.setEncoding("utf8");
      let rest = "";
      let messages = 0;
      response.on("data", (piece: string) => {
        resolve();
        const lines = (rest + piece).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) if (line.includes('"message.received"')) arrived(++messages);
      });
      response.on("end", () => process.exit(1));
    });
    request.on("error", reject);
  });
}

function arrived(message: number): void {
  const left = (missing.get(message) ?? count) - 1;
  missing.set(message, left);
  if (left === 0) console.log(JSON.stringify({ reached: message, at: Date.now() }));
}

process.on("SIGTERM", () => process.exit(0));
for (let opened = 0; opened < count; opened += AT_A_TIME) {
  await Promise.all(Array.from({ length: Math.min(AT_A_TIME, count - opened) }, open));
}
console.log(JSON.stringify({ open: count }));
