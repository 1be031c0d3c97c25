/** `pusher_beams`: rings all devices of one Beams user, through Firebase, Apple or the browser's push service. */
import { type Secret, secretString, utf8Length } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineNotifier,
  type Notifier,
  type ProviderDependencies,
  RingError,
  type RingReceipt,
  type RingRequest,
} from "../contract.ts";
import { assertFits, checkResult, createVendorClient } from "../http/index.ts";
import { acceptedId, ringError } from "./pusher-beams-answers.ts";

/** What Firebase, Apple and browsers take; Pusher's own limit, 200 KiB, is never reached. */
const MAX_BYTES = 4096;
const MAX_USER_BYTES = 164;

const options = z.strictObject({
  instance_id: z
    .guid("must be the instance's ID, such as 8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a")
    .meta({ description: "Dashboard → Beams → instance → Keys → Instance ID." }),
  primary_key: secretString("Dashboard → Beams → instance → Keys → Primary key."),
});
type Options = z.output<typeof options>;

export const pusherBeamsNotifier = defineNotifier({
  provider: "pusher_beams",
  title: "Pusher Beams",
  description: "Rings the devices of an authenticated Beams user, on Android, on Apple's systems and in browsers.",
  options,
  pushToken: z
    .string()
    // Spaces and slashes are Pusher's to allow, but a token that has them is most likely something else.
    .regex(/^[^\s\p{C}/\\]+$/u, "must be a Beams user ID, without spaces, control characters and slashes")
    .refine((user) => utf8Length(user) <= MAX_USER_BYTES, `must have ${MAX_USER_BYTES} bytes at most`),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: true, silent: "best-effort", link: false, deadTokens: false },
  docs: {
    setUp: [
      "In Pusher's dashboard, open Beams, make an instance, and give it what the platforms of your app need: a Firebase " +
        "service account, an Apple key, or nothing for browsers.",
      "Its Keys page has `instance_id` and `primary_key`.",
      "Your server gives each device a Beams token for a user of its own, and the app calls `setUserId` with it.",
    ],
    pushToken:
      "The Beams user ID that the app set with `setUserId`: best one for each device, since all devices of a user ring.",
    onTheDevice:
      "Takes the text under `leafmesh` from the notification's data and hands it to `handleRing`; on Android it " +
      "shows the question for `ask` by itself, in browsers the service worker shows something for every push.",
    check:
      "Publishes to a user that nobody is. `active` says that the key opens the instance, not that Firebase's " +
      "and Apple's keys in it are good.",
    goodToKnow: [
      "`ask` shows an alert of the category `LEAF_ALLOW` on Apple's systems and a notification in browsers. On Android it " +
        "is data with `title` and `body`, and the app shows a notification with Allow and Deny by itself.",
      "`silent` is data alone: high priority on Android, a background notification on Apple's systems, which iOS delays " +
        "and drops. Browsers take no push that shows nothing, so there the app's service worker has to show one.",
      "A later ring of an ask replaces an earlier one on Android and on Apple's systems, and not in browsers.",
      "Interests are never rung. Whoever knows the instance's ID, which every copy of the app holds, may subscribe to " +
        "any interest, and would be handed the room.",
      "Pusher takes a ring for a user that does not exist. Such an ask ends as `not_joined`.",
      "`primary_key` also signs users' tokens and deletes users: keep it from everything but your servers.",
    ],
    links: [
      "https://pusher.com/docs/beams/reference/publish-api/",
      "https://pusher.com/docs/beams/reference/publish-payloads/",
      "https://pusher.com/docs/beams/concepts/authenticated-users/",
    ],
  },
  validate({ primary_key }) {
    const isHeaderSafe = /^[\x21-\x7e]+$/.test(primary_key.reveal());
    return isHeaderSafe
      ? []
      : [{ path: ["primary_key"], message: "must be the key alone, without spaces and line breaks" }];
  },
  create: (fields, dependencies) => new PusherBeams(fields, dependencies),
});

class PusherBeams implements Notifier {
  readonly #options;
  readonly #dependencies;
  readonly #client;

  constructor(fields: Options, dependencies: ProviderDependencies) {
    const { clock, network } = dependencies;
    this.#options = fields;
    this.#dependencies = dependencies;
    this.#client = createVendorClient({ clock, network });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const platforms = Object.entries(toPlatforms(request, this.#dependencies.clock.nowMs())).map(([name, platform]) => {
      const text = JSON.stringify(platform);
      assertFits(text, MAX_BYTES);
      return `"${name}":${text}`;
    });
    return { id: await this.#publish(`{"users":${JSON.stringify([to.reveal()])},${platforms.join()}}`, signal) };
  }

  /** Publishes to a user that nobody is: Pusher judges the key, and finds no device. */
  check(signal: AbortSignal): Promise<CheckResult> {
    const user = this.#dependencies.newId("leafmesh-check");
    return checkResult(async () => {
      try {
        await this.#publish(JSON.stringify({ users: [user], fcm: { data: { probe: "1" } } }), signal);
      } catch (error) {
        // Nothing will be sent until the operator has acted.
        if (error instanceof RingError && error.code === "402") return { status: "failing", reason: error.message };
        throw error;
      }
      return { status: "active" };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #publish(body: string, signal: AbortSignal): Promise<string> {
    const { instance_id, primary_key } = this.#options;
    const instance = instance_id.toLowerCase();
    const answer = await this.#client.request({
      url: `https://${instance}.pushnotifications.pusher.com/publish_api/v1/instances/${instance}/publishes/users`,
      headers: {
        accept: "application/json",
        authorization: `Bearer ${primary_key.reveal()}`,
        "content-type": "application/json",
      },
      body,
      signal,
    });
    const id = acceptedId(answer);
    if (id === undefined) throw ringError(answer);
    return id;
  }
}

/** One for each, since nothing says which of them a user's devices are. https://pusher.com/docs/beams/reference/publish-payloads/ */
function toPlatforms({ ring, body, collapseKey, ttlMs, approval }: RingRequest, nowMs: number) {
  const isShown = approval === "ask";
  const shown = { title: ring.mesh ?? "A mesh", body: "Allow this connection?" };
  const time_to_live = Math.max(1, Math.ceil(ttlMs / 1000));
  const alert = { alert: shown, category: "LEAF_ALLOW", sound: "default", "mutable-content": 1 };
  return {
    fcm: {
      priority: "high",
      time_to_live,
      collapse_key: collapseKey,
      data: { leafmesh: body, ...(isShown ? shown : {}) },
    },
    apns: {
      priority: isShown ? 10 : 5,
      expiration: Math.ceil((nowMs + ttlMs) / 1000),
      collapse_id: collapseKey,
      aps: isShown ? alert : { "content-available": 1 },
      data: { leafmesh: body },
    },
    web: { time_to_live, ...(isShown ? { notification: shown } : {}), data: { leafmesh: body } },
  };
}
