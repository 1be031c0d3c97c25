/**
 * Requests to addresses that came from devices: the endpoint of a web push subscription, a WNS channel. As
 * `createVendorClient`, with the guard of `@leafmesh/guarded-fetch` in between: only into hosts that the provider lists,
 * only to public addresses, pinned, and nothing is sent before that is certain.
 */
import { AddressRefused, AnswerTooLarge, createGuardedFetch } from "@leafmesh/guarded-fetch";
import { deadline } from "@leafmesh/protocol";
import { RingError } from "../contract.ts";
import { failedRequest, MAX_ANSWER_BYTES, toAnswer } from "./answer.ts";
import { REQUEST_TIMEOUT_MS, type VendorClient, type VendorClientOptions } from "./vendor-client.ts";

export interface DeviceAddressClientOptions extends Omit<VendorClientOptions, "http2"> {
  /** Hosts that push services of this kind have; each stands for the hosts below it, too. */
  readonly hosts: readonly string[];
}

/** Opens nothing: the first request does. It only POSTs. */
export function createDeviceAddressClient(options: DeviceAddressClientOptions): VendorClient {
  const { clock, network, hosts, repeatsAreHarmless = true } = options;
  const fetch = createGuardedFetch({ clock, network });
  let closed = false;

  return {
    async request({ url, headers = {}, body = "", signal, timeoutMs = REQUEST_TIMEOUT_MS }) {
      if (closed) throw new RingError("transient", "the notifier is closed", { code: "closed", isRepeatable: false });
      const limit = deadline(clock, timeoutMs, signal);
      try {
        limit.signal.throwIfAborted();
        const post = { url, headers, body, timeoutMs, maxBytes: MAX_ANSWER_BYTES, signal: limit.signal };
        const answer = await fetch.postListed(post, hosts);
        return toAnswer(answer.status, answer.headers, answer.body, clock.nowMs());
      } catch (error) {
        if (error instanceof AddressRefused) {
          const message = "the push token leads to an address that is not one of the push service's";
          throw new RingError("bad_request", message, { code: error.reason });
        }
        const isGivenUp = signal.aborted;
        const isOutOfTime = limit.signal.aborted;
        const isTooLarge = error instanceof AnswerTooLarge;
        throw failedRequest({ error, isGivenUp, isOutOfTime, isTooLarge, repeatsAreHarmless });
      } finally {
        limit.dispose();
      }
    },
    async close() {
      closed = true;
      await fetch.close();
    },
  };
}
