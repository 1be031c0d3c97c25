/** The models of a mesh. What an endpoint needs is imported when the first call goes there, and not before. */
import { basename } from "node:path";
import { type Clock, type Logger, Secret } from "@leafmesh/protocol";
import type { Mesh, ModelEndpoint } from "../config/mesh.ts";
import { type Model, ModelError, type Models } from "./contract.ts";

export interface ModelsOptions {
  readonly mesh: Pick<Mesh, "models">;
  /** `OPENAI_API_KEY` and `OPENAI_BASE_URL` count for endpoints that name no address of their own. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const OPENAI = "openai";

/** Opens nothing. An endpoint that could not be made is tried again the next time it is asked for. */
export function createModels(options: ModelsOptions): Models {
  const made = new Map<string, Promise<Model>>();
  let closed = false;

  const make = async (name: string): Promise<Model> => {
    const endpoint = options.mesh.models.get(name) ?? builtIn(name);
    if (!endpoint) {
      const known = [...options.mesh.models.keys()].join(", ");
      throw new ModelError("bad_request", `There is no endpoint "${name}" under models: (there are: ${known}).`);
    }
    const model =
      endpoint.kind === "scripted" ? await makeScripted(endpoint, options) : await makeOpenAI(endpoint, options);
    if (endpoint.record === undefined) return model;
    const { createRecorder } = await import("./cassette.ts");
    return createRecorder(model, { path: endpoint.record, logger: options.logger });
  };

  return {
    async model(name) {
      if (closed) throw new ModelError("aborted", "The models of this mesh are closed.");
      const known = made.get(name);
      if (known) return known;
      const making = make(name);
      made.set(name, making);
      making.catch(() => made.delete(name));
      return making;
    },
    async close() {
      closed = true;
      const making = [...made.values()];
      made.clear();
      await Promise.all(making.map(async (each) => (await each.catch(() => undefined))?.close()));
    },
  };
}

function builtIn(name: string): ModelEndpoint | undefined {
  return name === OPENAI ? { name, kind: "openai" } : undefined;
}

async function makeOpenAI(endpoint: ModelEndpoint, { env, clock, logger }: ModelsOptions): Promise<Model> {
  const { createOpenAIChatModel } = await import("./openai-chat.ts");
  const baseUrl = endpoint.baseUrl ?? nonEmpty(env.OPENAI_BASE_URL);
  const envKey = nonEmpty(env.OPENAI_API_KEY);
  const usesEnvKey = endpoint.apiKey ? endpoint.apiKey.reveal() === envKey : endpoint.baseUrl === undefined;
  const apiKey = endpoint.apiKey ?? (usesEnvKey && envKey !== undefined ? new Secret(envKey) : undefined);
  const apiKeyPlace = usesEnvKey ? "OPENAI_API_KEY" : `models.${endpoint.name}.api_key`;
  if (!apiKey && baseUrl === undefined) {
    throw new ModelError(
      "bad_credential",
      `models.${endpoint.name} has no API key. Set OPENAI_API_KEY, or api_key under models.${endpoint.name}.`,
    );
  }
  return createOpenAIChatModel({
    endpoint: { name: endpoint.name, baseUrl, apiKey, apiKeyPlace, headers: endpoint.headers },
    clock,
    logger,
  });
}

/** Script or cassette: the beginning of the file tells. */
async function makeScripted(endpoint: ModelEndpoint, { clock, logger }: ModelsOptions): Promise<Model> {
  const path = endpoint.script;
  if (path === undefined) throw new ModelError("unscripted", `models.${endpoint.name} names no script.`);
  const { readFileBytes } = await import("../config/files.ts");
  const { CASSETTE_START, createPlayer, MAX_CASSETTE_BYTES } = await import("./cassette.ts");
  const file = readFileBytes(path, MAX_CASSETTE_BYTES);
  if (!file.ok) {
    const why = file.why.replaceAll("_", " ");
    throw new ModelError("unscripted", `models.${endpoint.name}.script: ${path} cannot be read (${why}).`);
  }
  const start = Buffer.from(file.bytes.subarray(0, CASSETTE_START.length)).toString("utf8");
  if (start === CASSETTE_START) return createPlayer(Buffer.from(file.bytes).toString("utf8"), basename(path));
  const { parseScript } = await import("./script-file.ts");
  const { createScriptedModel } = await import("./scripted.ts");
  const { script, places } = parseScript(file.bytes, path);
  return createScriptedModel(script, { name: basename(path), places, clock, logger });
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}
