import type { DeviceEnvelope } from "@leafmesh/protocol";

/** What a seat has sent and the service has not yet acknowledged. Sequence numbers start at 1 and have no gaps. */
export interface Outbox {
  /** Gives the envelope the next number and keeps it until it is acknowledged. Answers the frame's text. */
  add(envelope: DeviceEnvelope): string;
  /** Everything up to `seq` arrived. False when that number was never given: the service is out of step. */
  acknowledge(seq: number): boolean;
  /** The frames that have to be sent again, in order. */
  unacknowledged(): readonly string[];
  readonly lastSeq: number;
  readonly ackedSeq: number;
}

export function createOutbox(): Outbox {
  let waiting: { readonly seq: number; readonly text: string }[] = [];
  let lastSeq = 0;
  let ackedSeq = 0;
  return {
    add(envelope) {
      lastSeq += 1;
      const text = JSON.stringify({ ...envelope, seq: lastSeq });
      waiting.push({ seq: lastSeq, text });
      return text;
    },
    acknowledge(seq) {
      if (seq > lastSeq) return false;
      ackedSeq = Math.max(ackedSeq, seq);
      waiting = waiting.filter((frame) => frame.seq > ackedSeq);
      return true;
    },
    unacknowledged: () => waiting.map(({ text }) => text),
    get lastSeq() {
      return lastSeq;
    },
    get ackedSeq() {
      return ackedSeq;
    },
  };
}
