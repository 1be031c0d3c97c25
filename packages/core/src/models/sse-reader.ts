/**
 * Reads server-sent events as the bytes come: an event's `data` is handed out as soon as its blank line is there.
 * Works on bytes and decodes whole lines, so a character may be split anywhere.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
 */

export interface SseReader {
  /** Takes the next bytes and hands out the events they complete. Throws {@link SseEventTooLarge}. */
  push(bytes: Uint8Array): void;
  /** The stream is over. Hands out an event that lacks its blank line, or even the end of its last line. */
  end(): void;
}

/** An event, or a line of one, is larger than the reader may hold. */
export class SseEventTooLarge extends Error {
  override readonly name = "SseEventTooLarge";
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
/** Short lines cost more memory than their bytes. */
const MAX_DATA_LINES = 10_000;
const SMALLEST_HOLD_BYTES = 1024;
const NOTHING = Buffer.alloc(0);
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** `maxEventBytes` bounds what is held of one event. `onData` may throw; the reader is of no use after that. */
export function createSseReader(options: {
  readonly maxEventBytes: number;
  readonly onData: (data: string) => void;
}): SseReader {
  const { maxEventBytes, onData } = options;
  /** The line that has no end yet; grows by doubling, so that a stream of single bytes costs no more than one of lines. */
  let held = NOTHING;
  let heldBytes = 0;
  let data: string | undefined;
  let dataBytes = 0;
  let dataLines = 0;
  let atStart = true;
  let afterCarriageReturn = false;

  const hold = (rest: Buffer): void => {
    const size = heldBytes + rest.length;
    if (size + dataBytes > maxEventBytes) throw tooLarge(maxEventBytes);
    if (size > held.length) {
      const larger = Buffer.allocUnsafe(Math.max(size, held.length * 2, SMALLEST_HOLD_BYTES));
      held.copy(larger, 0, 0, heldBytes);
      held = larger;
    }
    rest.copy(held, heldBytes);
    heldBytes = size;
  };

  const takeLine = (rest: Buffer): void => {
    let line = rest;
    if (heldBytes > 0) {
      hold(rest);
      line = held.subarray(0, heldBytes);
      heldBytes = 0;
    }
    if (atStart) {
      atStart = false;
      if (BYTE_ORDER_MARK.every((byte, index) => line[index] === byte)) line = line.subarray(BYTE_ORDER_MARK.length);
    }
    if (line.length === 0) {
      dispatch();
      return;
    }
    const value = dataValue(line);
    if (value === undefined) return;
    dataBytes += value.length;
    dataLines += 1;
    if (dataBytes > maxEventBytes) throw tooLarge(maxEventBytes);
    if (dataLines > MAX_DATA_LINES) throw new SseEventTooLarge(`an event has more than ${MAX_DATA_LINES} lines`);
    const text = value.toString("utf8");
    data = data === undefined ? text : `${data}\n${text}`;
  };

  const dispatch = (): void => {
    if (data === undefined) return;
    const complete = data;
    data = undefined;
    dataBytes = 0;
    dataLines = 0;
    onData(complete);
  };

  return {
    push(bytes) {
      const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      if (buffer.length === 0) return;
      let from = afterCarriageReturn && buffer[0] === LINE_FEED ? 1 : 0;
      afterCarriageReturn = false;
      let lineFeed = buffer.indexOf(LINE_FEED, from);
      let carriageReturn = buffer.indexOf(CARRIAGE_RETURN, from);
      while (lineFeed >= 0 || carriageReturn >= 0) {
        const endsWithReturn = carriageReturn >= 0 && (lineFeed < 0 || carriageReturn < lineFeed);
        const end = endsWithReturn ? carriageReturn : lineFeed;
        takeLine(buffer.subarray(from, end));
        from = end + 1;
        if (endsWithReturn) {
          if (from === buffer.length) afterCarriageReturn = true;
          else if (buffer[from] === LINE_FEED) from += 1;
          carriageReturn = buffer.indexOf(CARRIAGE_RETURN, from);
        }
        if (lineFeed >= 0 && lineFeed < from) lineFeed = buffer.indexOf(LINE_FEED, from);
      }
      if (from < buffer.length) hold(buffer.subarray(from));
    },
    end() {
      if (heldBytes > 0) takeLine(NOTHING);
      dispatch();
    },
  };
}

/** What follows `data:`, or `undefined` for a comment and for the fields that nobody here reads. */
function dataValue(line: Buffer): Buffer | undefined {
  const isData = line[0] === 0x64 && line[1] === 0x61 && line[2] === 0x74 && line[3] === 0x61;
  if (!isData) return undefined;
  if (line.length === 4) return line.subarray(4);
  if (line[4] !== COLON) return undefined;
  return line.subarray(line[5] === SPACE ? 6 : 5);
}

function tooLarge(limit: number): SseEventTooLarge {
  return new SseEventTooLarge(`an event is larger than ${limit} bytes`);
}
