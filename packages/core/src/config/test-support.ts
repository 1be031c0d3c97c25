/** For the loader's own tests: loading from text, and providers shaped like real ones. */
import { inspect } from "node:util";
import { secretString } from "@leafmesh/protocol";
import * as z from "zod";
import type { ProviderRegistry } from "../providers/registry.ts";
import { type LoadedMesh, type LoadMeshOptions, loadMesh } from "./load-mesh.ts";
import type { Mesh } from "./mesh.ts";
import { renderDiagnostic, renderDiagnostics } from "./render.ts";

const mqttOptions = z.strictObject({
  url: z
    .string()
    .regex(/^(mqtts?|wss?):\/\/[^\s]+$/, "must be an address that begins with mqtt://, mqtts://, ws:// or wss://")
    .meta({ description: "Address of the broker, as devices reach it." }),
  username: z.string().optional().meta({ description: "User name of the mesh." }),
  password: secretString("Password of the mesh.").optional(),
  ca_cert: z.string().optional().meta({ description: "Certificate of a private CA, as PEM.", multiline: true }),
  keepalive: z.int().min(5).max(3600).default(60).meta({ description: "Seconds between signs of life." }),
  room_topic_prefix: z.string().optional().meta({ description: "Rooms are topics below <prefix>/room/." }),
});

const fcmOptions = z.strictObject({
  service_account: secretString("The service account's key as JSON.", { multiline: true }),
  project_id: z.string().optional().meta({ description: "The project, if not the key's own." }),
  sandbox: z.boolean().default(false).meta({ description: "Use the test environment." }),
});

const smsOptions = z.strictObject({
  account_sid: z.string().meta({ description: "The account." }),
  auth_token: secretString("The account's token.").optional(),
  api_key_secret: secretString("An API key's secret.").optional(),
});

export const testRegistry: ProviderRegistry = {
  notifiers: new Map([
    [
      "direct",
      {
        provider: "direct",
        title: "Direct",
        description: "Rings a device over the socket that it holds to the mesh.",
        options: z.strictObject({}),
        traits: { silent: "yes" as const },
      },
    ],
    [
      "mqtt",
      {
        provider: "mqtt",
        title: "MQTT broker",
        description: "Rings a device over a topic of a broker.",
        options: mqttOptions,
        packages: ["mqtt"],
        traits: { silent: "yes" as const },
        validate: (options: z.output<typeof mqttOptions>) =>
          options.password && !options.username
            ? [{ path: ["password"], message: `a password needs a username (${options.password.reveal()})` }]
            : [],
      },
    ],
    [
      "fcm",
      {
        provider: "fcm",
        title: "Firebase Cloud Messaging",
        description: "Rings Android, iOS and web apps through Google.",
        options: fcmOptions,
        traits: { silent: "best-effort" as const },
      },
    ],
    [
      "sms",
      {
        provider: "sms",
        title: "Text message",
        description: "Sends a link.",
        options: smsOptions,
        packages: ["sms-sdk", "sms-extra"],
        traits: { silent: "never" as const },
        validate: (options: z.output<typeof smsOptions>) =>
          options.auth_token || options.api_key_secret
            ? []
            : [{ path: [], message: "needs auth_token or api_key_secret" }],
      },
    ],
  ]),
  rooms: new Map([
    [
      "leafmesh",
      {
        provider: "leafmesh",
        title: "LeafMesh rooms",
        description: "Rooms of the mesh itself.",
        options: z.strictObject({}),
      },
    ],
    [
      "mqtt",
      {
        provider: "mqtt",
        title: "MQTT broker",
        description: "Meets a device on topics of a broker.",
        options: mqttOptions,
        packages: ["mqtt"],
        validate: (options: z.output<typeof mqttOptions>) =>
          options.room_topic_prefix
            ? []
            : [{ path: ["room_topic_prefix"], message: "is needed where the connection is a room" }],
      },
    ],
    [
      "pusher",
      {
        provider: "pusher",
        title: "Pusher Channels",
        description: "Meets a device on a channel.",
        options: z.strictObject({
          app_id: z.string().meta({ description: "The app." }),
          secret: secretString("The app's secret."),
        }),
        validate: (_options: unknown, { publicUrl }: { publicUrl?: string | undefined }) =>
          publicUrl ? [] : [{ path: [], message: "calls back, so server.public_url must be set" }],
      },
    ],
  ]),
};

/** Loads a mesh from text with the test registry and no files. */
export function loadText(source: string | Uint8Array, more: Partial<LoadMeshOptions> = {}): LoadedMesh {
  return loadMesh(source, {
    registry: testRegistry,
    env: { OPENAI_API_KEY: "sk-of-the-test" },
    readFile: () => ({ ok: false, why: "missing" }),
    folder: "/srv/mesh",
    knownConnections: new Map(),
    ...more,
  });
}

/** The mesh, or a failed test that says why there is none. */
export function meshOf(loaded: LoadedMesh): Mesh {
  if (!loaded.ok) throw new Error(`not a valid mesh:\n${renderDiagnostics(loaded.diagnostics)}`);
  return loaded.mesh;
}

/** First lines of all findings, errors before warnings, as they are printed. */
export function headlines(loaded: LoadedMesh): readonly string[] {
  const found = [...(loaded.ok ? [] : loaded.diagnostics), ...loaded.warnings];
  return found.map((diagnostic) => renderDiagnostic({ ...diagnostic, sourceLine: undefined }));
}

/** Everything that any output of a load holds. */
export function everythingShown(loaded: LoadedMesh): string {
  const found = [...(loaded.ok ? [] : loaded.diagnostics), ...loaded.warnings];
  return `${renderDiagnostics(found)}${JSON.stringify(found)}${inspect(loaded, { depth: 20 })}${JSON.stringify(loaded)}`;
}
