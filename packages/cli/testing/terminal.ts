import { PassThrough } from "node:stream";
import type { CliContext } from "../src/context.ts";

export interface Terminal {
  readonly context: CliContext;
  /** The next JSON line of stdout with this `event`; those before it are passed over. */
  event(name: string): Promise<Record<string, unknown>>;
  /** Everything that was written to stdout. */
  output(): string;
  /** What Ctrl-C does. */
  stop(): void;
}

export function createTerminal(): Terminal {
  const stop = new AbortController();
  const stdout = new PassThrough();
  const wakers: (() => void)[] = [];
  let text = "";
  let read = 0;
  stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
    for (const wake of wakers.splice(0)) wake();
  });
  return {
    context: {
      stdout,
      stderr: new PassThrough().resume(),
      env: {},
      cwd: process.cwd(),
      isTerminal: false,
      colors: false,
      signal: stop.signal,
    },
    async event(name) {
      for (;;) {
        for (let end = text.indexOf("\n", read); end >= 0; end = text.indexOf("\n", read)) {
          const line: Record<string, unknown> = JSON.parse(text.slice(read, end));
          read = end + 1;
          if (line.event === name) return line;
        }
        await new Promise<void>((resolve) => wakers.push(resolve));
      }
    },
    output: () => text,
    stop: () => stop.abort(),
  };
}
