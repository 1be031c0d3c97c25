/** What the frames of a LeafMesh room mean to the mesh, whichever way they come: events in order, each thing once. */
import { type DeviceEnvelope, deviceEnvelopeSchema, type PeerFrame, peerFrameSchema } from "@leafmesh/protocol";
import { type Delivered, RoomError, type RoomEvent } from "../contract.ts";
import { createEventQueue } from "../event-queue.ts";
import { Delivery } from "./delivery.ts";

/** Events that may wait for their reader. The service lets 20 frames a second through. */
const MAX_WAITING = 512;

export type DeviceEnvelopeType = "accepted" | "progress" | "reply";

export function isDeviceEnvelopeType(type: string): type is DeviceEnvelopeType {
  return type === "accepted" || type === "progress" || type === "reply";
}

export class MeshSeat {
  readonly #graceMs: () => number;
  readonly #queue = createEventQueue<RoomEvent>(MAX_WAITING);
  readonly #delivery = new Delivery();
  #device: "absent" | "here" | "away" | "left" = "absent";
  #hasReply = false;
  #isOver = false;

  /** `graceMs` is asked when a device goes away. */
  constructor(graceMs: () => number) {
    this.#graceMs = graceMs;
  }

  get events(): AsyncIterable<RoomEvent> {
    return this.#queue;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Why nothing that is sent now can reach the device; `undefined` when it can. */
  get obstacle(): string | undefined {
    if (this.#isOver) return "The room is closed.";
    return this.#device === "left" ? "The device has left the room." : undefined;
  }

  /** The task went out under this sequence number. */
  sent(seq: number): void {
    this.#delivery.sent(seq);
  }

  /** A sequenced frame that came to the mesh's seat, once and in order. */
  receive(frame: { readonly type: string }): void {
    if (frame.type === "peer") {
      const peer = peerFrameSchema.safeParse(frame);
      if (peer.success) this.#onPeer(peer.data);
      else this.#push({ type: "dropped", why: "a malformed peer frame" });
    } else if (isDeviceEnvelopeType(frame.type)) {
      const envelope = deviceEnvelopeSchema.safeParse(frame);
      if (envelope.success) this.#onEnvelope(envelope.data);
      else this.#push({ type: "dropped", why: `a malformed ${frame.type}` });
    } else this.#push({ type: "dropped", why: "a frame that is not the device's to send" });
  }

  /** The service refused a frame of the mesh. When it was the task, the room is of no more use. */
  refused(code: string, seq: number | undefined): void {
    if (!this.#delivery.refused(seq)) return;
    const kind = code === "too_large" ? "too_big" : "mismatch";
    this.end(new RoomError(kind, "The room service refused the task.", { code }));
  }

  /** The room ended and nobody asked for it. `delivered` when more is known than what passed through this seat. */
  end(error: RoomError, delivered: Delivered = this.#delivery.verdict(true)): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#queue.end({ type: "closed", error, delivered });
  }

  /** What is known of the task while the room may still hand it over. */
  deliveredSoFar(): Delivered {
    return this.#delivery.verdict(false);
  }

  /** The mesh itself is done: what waits is still read, nothing is added. */
  finish(): void {
    this.#isOver = true;
    this.#queue.end();
  }

  #onPeer(peer: PeerFrame): void {
    switch (peer.state) {
      case "joined":
      case "back":
        if (this.#device === "absent") {
          this.#delivery.joined();
          this.#push({ type: "joined", capabilities: peer.capabilities });
        } else if (this.#device === "away") this.#push({ type: "back" });
        if (this.#device !== "left") this.#device = "here";
        return;
      case "away":
        if (this.#device !== "here") return;
        this.#device = "away";
        this.#push({ type: "away", graceMs: this.#graceMs() });
        return;
      case "left":
        if (this.#device === "left") return;
        this.#device = "left";
        this.#delivery.left(peer);
        if (peer.reason === "too_large") {
          this.#push({ type: "dropped", why: "a frame over the room's size", tooLarge: true });
        }
        this.#push({
          type: "left",
          reason: peer.reason === "left" ? "left" : "lost",
          delivered: this.#delivery.verdict(true),
        });
        return;
      case "refused":
        if (this.#device === "absent") this.#push({ type: "refused" });
        return;
      default:
        peer.state satisfies never;
    }
  }

  #onEnvelope(envelope: DeviceEnvelope): void {
    // The protocol says this with `peer`; an envelope of that name is nobody's.
    if (envelope.type === "refused") return;
    this.#delivery.answered();
    // After a mesh took its seat anew, frames may come that were read before.
    if (this.#hasReply) return;
    if (envelope.type === "reply") this.#hasReply = true;
    this.#push({ type: "frame", envelope });
  }

  /** A device that floods ends the room: whatever were dropped instead could be the answer. */
  #push(event: RoomEvent): void {
    if (this.#isOver || this.#queue.push(event)) return;
    this.end(new RoomError("mismatch", "The device sends more than the mesh can read.", { code: "flood" }));
  }
}
