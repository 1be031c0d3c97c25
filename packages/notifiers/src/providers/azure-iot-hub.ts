/**
 * `azure_iot_hub`: a ring is the direct method `leafmesh_connect`, which the device answers while it is connected.
 * https://learn.microsoft.com/azure/iot-hub/iot-hub-devguide-direct-methods
 */
import { type NewId, type Secret, secretString } from "@leafmesh/protocol";
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
import {
  type ConnectionIssue,
  readConnectionString,
  type SharedAccessPolicy,
  signSharedAccess,
} from "./azure-shared-access.ts";

const MAX_BYTES = 131_072;
const METHOD = "leafmesh_connect";
const API_VERSION = "2021-04-12";
const SIGNED_FOR_MS = 300_000;
/** The least that IoT Hub takes. */
const RESPONSE_SECONDS = 5;
/** How long a device that has just lost its connection has to come back. With the above it fits into one attempt of the mesh. */
const CONNECT_SECONDS = 3;
/** For the way to the hub and back, beside what the hub waits itself. */
const WAY_SECONDS = 1.5;
/** The hub holds a request until the device has answered, or time is up. */
const CONNECTIONS = 128;
/** Azure's clouds; a signature goes nowhere else. */
const HOSTS = /^[a-z0-9][a-z0-9-]{1,48}[a-z0-9](?:\.service)?\.azure-devices\.(?:net|cn|us)$/;

const options = z.strictObject({
  connection_string: secretString(
    "Portal → IoT Hub → Shared access policies → service: its primary connection string. Not that of a device.",
  ),
});
type Options = z.output<typeof options>;

export const azureIotHubNotifier = defineNotifier({
  provider: "azure_iot_hub",
  title: "Azure IoT Hub",
  description: "Rings devices that are connected to your IoT Hub, with a direct method that they answer.",
  options,
  pushToken: z
    .string()
    .regex(/^(?!\.{1,2}$)[A-Za-z0-9.+%_#*?!(),:=@$'-]{1,128}$/, "must be the id of a device in the IoT Hub"),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: false, silent: "yes", link: false, deadTokens: true },
  docs: {
    setUp: [
      "Use an IoT Hub of the free or a standard tier: the basic tier has no direct methods.",
      "Copy the connection string of the policy `service`, which has the right ServiceConnect alone. That of " +
        "`iothubowner` works and could delete every device.",
      "Let the device's program handle the direct method `leafmesh_connect`: give `leafmesh` of its payload to the " +
        "device kit, and answer with the status 200 at once, before it joins or asks anybody.",
    ],
    pushToken: "The id under which the device is registered in the IoT Hub, exactly as it is written there.",
    onTheDevice:
      "Answers the direct method `leafmesh_connect`, whose payload is the ring, at once, and then joins with " +
      "the device kit.",
    check:
      "Calls the method on an id that does not exist. `active` says that the policy may call methods of this " + "hub.",
    goodToKnow: [
      "For devices that hold a connection to the hub anyway. One that is not connected gets three seconds to come back; " +
        "then the ask is `not_joined` (`device_offline`). A program that does not listen for the method looks the same.",
      "A device shows nothing by itself: with `ask` its program has to ask the person.",
      "A device that does not answer the method within five seconds counts as rung, since it may be about to join.",
      "An id that is not registered is a dead token; IoT Hub says the same of some devices that are disabled.",
      "Rings count against the messages that the hub takes in a day.",
    ],
    links: [
      "https://learn.microsoft.com/azure/iot-hub/iot-hub-devguide-direct-methods",
      "https://learn.microsoft.com/azure/iot-hub/iot-hub-dev-guide-sas",
      "https://learn.microsoft.com/azure/iot-hub/troubleshoot-error-codes",
    ],
  },
  validate(fields) {
    const hub = readHub(fields);
    return "issue" in hub ? [{ path: ["connection_string"], message: hub.issue }] : [];
  },
  create: (fields, dependencies) => new AzureIotHub(fields, dependencies),
});

/** How long the hub waits, each in whole seconds. */
interface Waits {
  readonly connectSeconds: number;
  readonly responseSeconds: number;
}

class AzureIotHub implements Notifier {
  readonly #options;
  readonly #clock;
  readonly #newId: NewId;
  readonly #client;

  constructor(fields: Options, { clock, network, newId }: ProviderDependencies) {
    this.#options = fields;
    this.#clock = clock;
    this.#newId = newId;
    this.#client = createVendorClient({ clock, network, connections: CONNECTIONS });
  }

  async ring({ body, ttlMs }: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const payload = { leafmesh: body };
    assertFits(JSON.stringify(payload), MAX_BYTES);
    await this.#invoke(to.reveal(), payload, waitsFor(ttlMs), signal);
    return {};
  }

  /** The method itself, on a device that there is not: the hub looks at the right before it looks for the device. */
  check(signal: AbortSignal): Promise<CheckResult> {
    return checkResult(async () => {
      try {
        await this.#invoke(this.#newId("leafmesh-probe"), {}, waitsFor(0), signal);
      } catch (error) {
        if (error instanceof RingError && error.kind === "dead_token") return { status: "active" };
        throw error;
      }
      return { status: "readable", reason: "IoT Hub answered for a device that should not exist." };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #invoke(deviceId: string, payload: object, waits: Waits, signal: AbortSignal): Promise<void> {
    const hub = readHub(this.#options);
    if ("issue" in hub) throw new RingError("bad_credential", `connection_string ${hub.issue}`);
    const { connectSeconds, responseSeconds } = waits;
    const answer = await this.#client.request({
      url: `https://${hub.host}/twins/${encodeURIComponent(deviceId)}/methods?api-version=${API_VERSION}`,
      headers: {
        authorization: signSharedAccess(hub.host, hub.policy, this.#clock.nowMs() + SIGNED_FOR_MS),
        "content-type": "application/json; charset=utf-8",
      },
      body: JSON.stringify({
        methodName: METHOD,
        payload,
        responseTimeoutInSeconds: responseSeconds,
        connectTimeoutInSeconds: connectSeconds,
      }),
      signal,
      timeoutMs: (connectSeconds + responseSeconds + WAY_SECONDS) * 1000,
    });
    // The table is large, and a mesh that has not rung anybody yet has no use for it.
    const { assertRung } = await import("./azure-iot-hub-answers.ts");
    assertRung(answer);
  }
}

/** A device that comes back must still have the time to answer and to join. */
function waitsFor(ttlMs: number): Waits {
  const spare = Math.floor(ttlMs / 1000 - RESPONSE_SECONDS - WAY_SECONDS);
  return { connectSeconds: Math.min(CONNECT_SECONDS, Math.max(0, spare)), responseSeconds: RESPONSE_SECONDS };
}

interface Hub {
  readonly host: string;
  readonly policy: SharedAccessPolicy;
}

function readHub({ connection_string }: Options): Hub | ConnectionIssue {
  const names = ["HostName", "SharedAccessKeyName", "SharedAccessKey"];
  const text = connection_string.reveal();
  if ("parts" in readConnectionString(text, ["DeviceId"])) return { issue: DEVICES_OWN };
  const read = readConnectionString(text, names);
  if ("issue" in read) return read;
  const [name = "", policy = "", key = ""] = names.map((part) => read.parts.get(part));
  const host = name.toLowerCase();
  if (!HOSTS.test(host)) return { issue: "must have a HostName such as my-hub.azure-devices.net" };
  if (!/^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(key)) {
    return { issue: "has a SharedAccessKey that is not base64; copy the whole connection string from the portal" };
  }
  // Unlike Notification Hubs, which takes the text: this is what it encodes.
  return { host, policy: { name: policy, key: Buffer.from(key, "base64") } };
}

const DEVICES_OWN = "is that of a device; copy the one of the policy `service` under Shared access policies";
