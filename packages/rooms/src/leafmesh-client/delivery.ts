import type { PeerFrame } from "@leafmesh/protocol";
import type { Delivered } from "../contract.ts";

/** What the mesh can say about whether the device has the task, from what passed through its seat. */
export class Delivery {
  #deviceCame = false;
  #taskSeq: number | undefined;
  #answered = false;
  #handedSeq: number | undefined;
  #ackedSeq: number | undefined;
  #refused = false;

  joined(): void {
    this.#deviceCame = true;
  }

  /** The task went out under this number of the mesh's own sequence. */
  sent(seq: number): void {
    this.#taskSeq = seq;
  }

  /** The service will never hand over the frame with this number. */
  refused(seq: number | undefined): boolean {
    if (seq === undefined || seq !== this.#taskSeq) return false;
    this.#refused = true;
    return true;
  }

  /** The device spoke of the task. */
  answered(): void {
    this.#answered = true;
  }

  /** The device is gone, and the service tells how far the mesh's frames got. */
  left(peer: PeerFrame): void {
    this.#handedSeq = peer.handed_seq;
    this.#ackedSeq = peer.acked_seq;
  }

  /** `over`: the device cannot be handed anything any more, so that what has not come will never come. */
  verdict(over: boolean): Delivered {
    if (this.#taskSeq === undefined || this.#refused) return "no";
    if (this.#answered) return "yes";
    if (this.#ackedSeq !== undefined && this.#ackedSeq >= this.#taskSeq) return "yes";
    if (!over) return "maybe";
    if (!this.#deviceCame) return "no";
    return this.#handedSeq !== undefined && this.#handedSeq < this.#taskSeq ? "no" : "maybe";
  }
}
