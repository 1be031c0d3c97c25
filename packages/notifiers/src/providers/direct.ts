/**
 * `direct`: the built-in way to ring, without any push provider. A device holds one WebSocket to the mesh
 * (`wss://<mesh>/v1/direct`, subprotocol `leafmesh.direct.v1`) and is rung over it.
 *
 * What the adapter needs: the hub that holds the sockets of this mesh.
 */
import { directTokenSchema, type Logger, MAX_RING_BYTES, type Secret } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineNotifier,
  type Notifier,
  type NotifierDefinition,
  RingError,
  type RingReceipt,
  type RingRequest,
} from "../contract.ts";
import { type DirectRinger, hashDirectToken } from "../direct/hub.ts";

/** `ringer` is asked for at the first ring: the hub is made when the mesh starts, definitions exist before. */
export function directNotifier(ringer: () => DirectRinger): NotifierDefinition {
  return defineNotifier({
    provider: "direct",
    title: "Direct socket (built in)",
    description: "Rings devices that hold a WebSocket to the mesh. Needs no account; a device must be connected.",
    options: z.strictObject({}),
    pushToken: directTokenSchema,
    traits: { maxBytes: MAX_RING_BYTES, ttl: true, collapse: true, silent: "yes", link: false, deadTokens: false },
    docs: {
      setUp: [],
      pushToken:
        "A secret that your app chooses for the device. The app gives it to the mesh as `push_token`, and the device " +
        "presents the same on its socket.",
      onTheDevice: "Holds the socket open with the device kit's `connectDirect`, and hands each ring to `handleRing`.",
      check: "Nothing has to be proved: the sockets are the mesh's own, so the verdict is always `active`.",
      goodToKnow: [
        "A device that is not connected cannot be woken: the ask ends as `not_joined` (`device_offline`). Use a push provider for phones whose app may be closed.",
        "Anything but loopback needs TLS, or the token is readable on the way.",
      ],
      links: [],
    },
    create: (_options, { logger }) => new DirectNotifier(ringer, logger),
  });
}

class DirectNotifier implements Notifier {
  readonly #ringer: () => DirectRinger;
  readonly #logger: Logger;

  constructor(ringer: () => DirectRinger, logger: Logger) {
    this.#ringer = ringer;
    this.#logger = logger;
  }

  async ring({ ring, body }: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const delivery = await this.#ringer().ring(
      { deviceId: ring.device, tokenHash: hashDirectToken(to), askId: ring.ask, body },
      signal,
    );
    if (delivery === "no_socket") {
      throw new RingError("offline", `The device "${ring.device}" holds no socket to this mesh with this push token.`, {
        code: "no_socket",
      });
    }
    if (delivery === "busy") {
      const message = `The device "${ring.device}" does not confirm its rings as fast as it is rung.`;
      throw new RingError("transient", message, { code: "busy" });
    }
    this.#logger.debug("The ring is in the device's socket.", { ask: ring.ask, device: ring.device, delivery });
    return { id: delivery };
  }

  async check(): Promise<CheckResult> {
    return { status: "active" };
  }

  async close(): Promise<void> {
    // The sockets belong to the mesh and outlive a connection record.
  }
}
