/**
 * `aws_iot`: a ring is one message to the topic that the device listens on, published over HTTPS.
 * https://docs.aws.amazon.com/iot/latest/developerguide/http.html
 */
import { topicIssue } from "@leafmesh/mqtt";
import { type Secret, utf8Length } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineNotifier,
  type Notifier,
  type OptionIssue,
  type ProviderDependencies,
  RingError,
  type RingReceipt,
  type RingRequest,
} from "../contract.ts";
import { assertFits, checkResult, createVendorClient, type VendorAnswer } from "../http/index.ts";
import { accessKeyFields, accessKeyIssues, REGION, REGION_SHAPE, signAws } from "./aws-access-key.ts";

const MAX_BYTES = 131_072;
/** https://docs.aws.amazon.com/general/latest/gr/iot-core.html#message-broker-limits */
const MAX_TOPIC_BYTES = 256;
const MAX_SLASHES = 7;
/** Amazon's own hosts of the data plane, those inside of a private network included: keys are signed for nobody else. */
const HOST =
  /^(?:[a-z0-9][a-z0-9-]{0,62}\.){1,3}iot(?:-fips)?\.([a-z]{2,4}(?:-[a-z]{2,12}){1,3}-\d{1,2})\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$/;
/** Endpoints of the account that serve other things. */
const OTHER_ENDPOINT = /(?:^|\.)(?:credentials|jobs)\.iot/;

const options = z.strictObject({
  endpoint: z
    .string()
    .max(253, "must be a host name")
    .meta({
      description:
        "IoT Core → Connect → Domain configurations, or `aws iot describe-endpoint --endpoint-type iot:Data-ATS`: the host " +
        "alone.",
    }),
  ...accessKeyFields,
  region: z
    .string()
    .regex(REGION, REGION_SHAPE)
    .optional()
    .meta({ description: "The region, which the endpoint names as well: the two must agree." }),
});
type Options = z.output<typeof options>;

export const awsIotNotifier = defineNotifier({
  provider: "aws_iot",
  title: "AWS IoT Core",
  description: "Rings devices that are connected to AWS IoT Core, with a message to each device's own topic.",
  options,
  pushToken: z.string().superRefine((topic, context) => {
    const issue = topicIssue(topic) ?? awsTopicIssue(topic);
    if (issue) context.addIssue({ code: "custom", message: `${issue}; for example leafmesh/phone-7/connect` });
  }),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: false, silent: "yes", link: false, deadTokens: false },
  docs: {
    setUp: [
      "Copy the account's data endpoint, the one that has `-ats` in its name, into `endpoint`, without `https://`.",
      "In IAM, create a user whose only right is `iot:Publish` on `arn:aws:iot:<region>:<account>:topic/leafmesh/*/connect`, " +
        "and an access key for it. Add `iot:ListRetainedMessages` if a connection test shall reach the endpoint.",
      "Let each device subscribe to its own topic with QoS 1: its policy needs `iot:Subscribe` on the topic filter and " +
        "`iot:Receive` on the topic. What arrives there is the ring: give it to the device kit.",
    ],
    pushToken:
      "The device's ring topic, such as `leafmesh/phone-7/connect`: one exact topic of at most 256 bytes and seven " +
      "slashes, without wildcards and blanks.",
    onTheDevice:
      "Subscribes to its ring topic, with the device kit's `listenForRings` or AWS's own SDK, and hands each " +
      "ring to `handleRing`.",
    check:
      "Reads the list of retained messages: `active` says that the key, the endpoint and the region agree, " +
      "`readable` that the key is good and may not read. Only a ring shows whether it may publish.",
    goodToKnow: [
      "For devices that hold a connection to the broker anyway. AWS answers the same whether somebody is subscribed or " +
        "nobody, so a device that is not there ends as `not_joined`, and no token is ever known to be dead.",
      "A device shows nothing by itself: with `ask` its program has to ask the person.",
      "A device with a persistent session gets a ring after a short loss of its connection, as long as the ask lasts.",
      "Whoever may read a ring topic can join that ring's room. Give no device `iot:Receive` on the topics of others, and " +
        "mind that rules of IoT Core see the messages too.",

      "Custom domains are not supported: a signature goes to Amazon's own hosts alone.",
      "Temporary keys (`session_token`) are not renewed: the connection fails when they expire.",
    ],
    links: [
      "https://docs.aws.amazon.com/iot/latest/developerguide/http.html",
      "https://docs.aws.amazon.com/goto/WebAPI/iot-data-2015-05-28/Publish",
      "https://docs.aws.amazon.com/iot/latest/developerguide/topicdata.html",
    ],
  },
  validate: (fields) => [...endpointIssues(fields), ...accessKeyIssues(fields)],
  create: (fields, dependencies) => new AwsIot(fields, dependencies),
});

class AwsIot implements Notifier {
  readonly #options;
  readonly #clock;
  readonly #client;

  constructor(fields: Options, { clock, network }: ProviderDependencies) {
    this.#options = fields;
    this.#clock = clock;
    this.#client = createVendorClient({ clock, network });
  }

  async ring({ body, ttlMs }: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    assertFits(body, MAX_BYTES);
    // The whole topic is one segment of the path.
    const path = `/topics/${encodeURIComponent(to.reveal())}`;
    // Without an expiry it would wait for a session for as long as the session lasts.
    const expiry = Math.max(1, Math.ceil(ttlMs / 1000));
    const query = `contentType=application%2Fjson&messageExpiry=${expiry}&qos=1`;
    const answer = await this.#call("POST", `${path}?${query}`, signal, body);
    const { traceId } = await import("./aws-iot-answers.ts");
    return { id: traceId(answer) };
  }

  /** A publish cannot be tried without one, so this reads, and asks whose the key is where it may not. */
  check(signal: AbortSignal): Promise<CheckResult> {
    return checkResult(async () => {
      const { isRightMissing } = await import("./aws-iot-answers.ts");
      try {
        const { text } = await this.#call("GET", "/retainedMessage?maxResults=1", signal);
        if (!text.includes('"retainedTopics"'))
          throw new RingError("transient", "AWS IoT Core gave no list of messages.");
        return { status: "active" };
      } catch (error) {
        if (!isRightMissing(error)) throw error;
      }
      const { callerAccount } = await import("./aws-caller.ts");
      await callerAccount(this.#client, this.#clock, this.#options, this.#endpoint().region, signal);
      return { status: "readable", reason: "AWS takes the access key; a ring alone can show whether it may publish." };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  #endpoint(): Endpoint {
    const read = readEndpoint(this.#options);
    if ("issue" in read) throw new RingError("bad_credential", `The field ${read.path} ${read.issue}.`);
    return read;
  }

  /** Throws {@link RingError} for every answer that is no success. */
  async #call(method: "GET" | "POST", path: string, signal: AbortSignal, body?: string): Promise<VendorAnswer> {
    const { host, region } = this.#endpoint();
    const unsigned = {
      url: `https://${host}${path}`,
      method,
      headers: body === undefined ? {} : { "content-type": "application/octet-stream" },
      body,
      service: "iotdata",
      region,
    };
    const request = await signAws(unsigned, this.#options, this.#clock);
    const answer = await this.#client.request({ ...request, signal });
    const { iotError, isPublished } = await import("./aws-iot-answers.ts");
    if (!isPublished(answer)) throw iotError(answer);
    return answer;
  }
}

interface Endpoint {
  readonly host: string;
  readonly region: string;
}

interface EndpointIssue {
  readonly path: "endpoint" | "region";
  readonly issue: string;
}

function readEndpoint({ endpoint, region: given }: Options): Endpoint | EndpointIssue {
  const host = endpoint.toLowerCase();
  const [, region] = HOST.exec(host) ?? [];
  if (region === undefined) {
    const issue =
      "must be the host of the account's data endpoint alone, such as a1b2c3-ats.iot.eu-west-1.amazonaws.com";
    return { path: "endpoint", issue };
  }
  if (OTHER_ENDPOINT.test(host)) {
    return { path: "endpoint", issue: "is another endpoint of the account: take the one of the type iot:Data-ATS" };
  }
  if (given !== undefined && given !== region) {
    return { path: "region", issue: `is not that of the endpoint, which is ${region}: leave it out, or correct one` };
  }
  return { host, region };
}

function endpointIssues(fields: Options): readonly OptionIssue[] {
  const read = readEndpoint(fields);
  return "issue" in read ? [{ path: [read.path], message: read.issue }] : [];
}

/** What AWS wants beside what MQTT does, and what would be another path of its API. */
function awsTopicIssue(topic: string): string | undefined {
  if (utf8Length(topic) > MAX_TOPIC_BYTES) return `must be at most ${MAX_TOPIC_BYTES} bytes`;
  const levels = topic.split("/");
  if (levels.length > MAX_SLASHES + 1) return `must have at most ${MAX_SLASHES} slashes`;
  if (/\s/.test(topic)) return "must not hold blanks";
  return levels.some((level) => /^\.{1,2}$/.test(level)) ? "must not have . or .. as a level" : undefined;
}
