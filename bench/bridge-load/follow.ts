/** A session's event stream, as light as a load generator needs it. */
import { type Agent, get, type IncomingMessage } from "node:http";

export type Payload = Readonly<Record<string, unknown>>;

export interface Followed {
  /** The next frame of the type that matches and was not returned before; `undefined` when none comes in time. */
  next(type: string, matches: (payload: Payload) => boolean, withinMs: number): Promise<Payload | undefined>;
  /** Frames of the type so far. */
  count(type: string): number;
  close(): void;
}

export async function followEvents(agent: Agent, url: string): Promise<Followed> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { agent, headers: { "x-mewbo-capabilities": "device_control" } }, resolve).on("error", reject);
  });
  if (response.statusCode !== 200) throw new Error(`the stream was refused: ${response.statusCode}`);
  const counts = new Map<string, number>();
  const unseen: { readonly type: string; readonly payload: Payload }[] = [];
  let look = (): void => {};
  let text = "";
  response.setEncoding("utf8");
  response.on("data", (piece: string) => {
    text += piece;
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data === undefined) continue;
      const frame: { type: string; payload: Payload } = JSON.parse(data);
      counts.set(frame.type, (counts.get(frame.type) ?? 0) + 1);
      unseen.push(frame);
    }
    look();
  });
  response.on("error", () => {});

  return {
    next: (type, matches, withinMs) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => end(undefined), withinMs);
        const end = (payload: Payload | undefined): void => {
          clearTimeout(timer);
          look = () => {};
          resolve(payload);
        };
        look = () => {
          for (let frame = unseen.shift(); frame; frame = unseen.shift()) {
            if (frame.type === type && matches(frame.payload)) return end(frame.payload);
          }
        };
        look();
      }),
    count: (type) => counts.get(type) ?? 0,
    close: () => void response.destroy(),
  };
}
