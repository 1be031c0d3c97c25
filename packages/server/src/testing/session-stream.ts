/** Reads a session's event stream as a client does. For tests. */
export interface StreamFrame {
  readonly id?: number | undefined;
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly ts: number;
}

export interface SessionStream {
  /** In order of arrival. */
  readonly frames: readonly StreamFrame[];
  /** The frame of the type that comes as the `number`th, from 1, waiting for it. */
  next(type: string, number?: number): Promise<StreamFrame>;
  close(): void;
}

const PATIENCE_MS = 10_000;

/** Resolves when the server has answered: the stream is attached then. */
export async function openSessionStream(url: string, headers: Record<string, string>): Promise<SessionStream> {
  const stop = new AbortController();
  const response = await fetch(url, { headers, signal: stop.signal });
  if (!response.ok || !response.body) throw new Error(`the stream answered ${response.status}`);
  const frames: StreamFrame[] = [];
  let wake = (): void => {};

  const read = async (body: ReadableStream<Uint8Array>): Promise<void> => {
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const data = /^data: (.*)$/m.exec(block)?.[1];
        const id = /^id: (\d+)$/m.exec(block)?.[1];
        if (data !== undefined) frames.push({ ...JSON.parse(data), ...(id === undefined ? {} : { id: Number(id) }) });
      }
      wake();
    }
  };
  void read(response.body).catch(() => {});

  return {
    frames,
    async next(type, number = 1) {
      const giveUpAt = Date.now() + PATIENCE_MS;
      for (;;) {
        const found = frames.filter((frame) => frame.type === type)[number - 1];
        if (found) return found;
        if (Date.now() > giveUpAt) throw new Error(`no frame ${number} of type ${type} came`);
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, PATIENCE_MS);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    },
    close: () => stop.abort(),
  };
}
