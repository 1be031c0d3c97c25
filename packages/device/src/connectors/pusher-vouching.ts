/** What a device asks of the mesh before Pusher lets it in, and tells it when the person did not allow it. */
import { type Clock, type RoomCallback, type RoomVoucher, roomVoucherSchema } from "@leafmesh/protocol";
import { JoinError } from "../connector.ts";

/** The part of `fetch` that is used. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface Vouching {
  /** Asks until the mesh has answered. Throws {@link JoinError} when it says no, or the signal fired. */
  vouch(socketId: string, seat: string, signal: AbortSignal): Promise<RoomVoucher>;
  /** Throws {@link JoinError}. */
  refuse(signal: AbortSignal): Promise<void>;
}

const TRY_TIMEOUT_MS = 10_000;
const RETRY_AFTER_MS = 1_000;
const MAX_ANSWER_CHARACTERS = 8_192;
/** The room is over, or another device is in it. */
const OVER: ReadonlySet<number> = new Set([401, 404, 409, 410]);

export function createVouching(
  { url, token, channel }: { readonly url: string; readonly token: string; readonly channel: string },
  { fetch, clock }: { readonly fetch: Fetch; readonly clock: Clock },
): Vouching {
  /** `undefined`: no answer, which another try may have. */
  const ask = async (callback: RoomCallback, signal: AbortSignal): Promise<string | undefined> => {
    const response = await fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(callback),
      redirect: "error",
      credentials: "omit",
      signal: AbortSignal.any([signal, AbortSignal.timeout(TRY_TIMEOUT_MS)]),
    }).catch(() => undefined);
    const text = await response?.text().catch(() => undefined);
    if (response === undefined || text === undefined) return undefined;
    const { status } = response;
    if (OVER.has(status)) throw new JoinError("over", `The mesh says that the room is over or taken (HTTP ${status})`);
    if (status === 429 || status >= 500) return undefined;
    if (status >= 300 || text.length > MAX_ANSWER_CHARACTERS) {
      throw new JoinError("unsupported", `The mesh did not sign for the device (HTTP ${status})`);
    }
    return text;
  };

  const askUntilAnswered = async (callback: RoomCallback, signal: AbortSignal): Promise<string> => {
    while (!signal.aborted) {
      const text = await ask(callback, signal);
      if (text !== undefined) return text;
      await pause(clock, RETRY_AFTER_MS, signal);
    }
    throw new JoinError("unreachable", "The mesh was not reached in time");
  };

  return {
    async vouch(socketId, seat, signal) {
      const text = await askUntilAnswered({ socket_id: socketId, channel_name: channel, seat }, signal);
      const voucher = roomVoucherSchema.safeParse(parsed(text)).data;
      if (!voucher) throw new JoinError("unsupported", "What the mesh answered is no signature");
      return voucher;
    },
    async refuse(signal) {
      await askUntilAnswered({ refuse: "not_allowed" }, signal);
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.schedule(ms, () => end());
    const end = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", end);
      resolve();
    };
    if (signal.aborted) end();
    else signal.addEventListener("abort", end);
  });
}
