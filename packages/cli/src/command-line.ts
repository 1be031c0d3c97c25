import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { type CliContext, EXIT, type ExitCode } from "./context.ts";
import {
  DEFAULT_GRACE_S,
  LARGEST_GRACE_S,
  LARGEST_MESH_FILE_BYTES,
  LOG_FORMATS,
  LOG_LEVELS,
  OptionValueError,
  port,
  seconds,
  webAddress,
  wholeNumber,
} from "./option-values.ts";
import { createContext, type ProcessLike, report } from "./process-context.ts";
import { version } from "./version.ts";

type Action = () => Promise<ExitCode>;

/** Parses `argv` (with node and script in front), runs the command and answers the exit code. */
export async function runCommandLine(argv: readonly string[], processLike: ProcessLike): Promise<ExitCode> {
  const context = createContext(processLike);
  let action: Action | undefined;
  const program = declareCommands(context, (chosen) => {
    action = chosen;
  });
  try {
    await program.parseAsync([...argv]);
    return action ? await action() : EXIT.ok;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    return report(error, context);
  }
}

/** For commander, which adds the option's name to the message. */
function asArgument<Value>(read: (text: string) => Value): (text: string) => Value {
  return (text) => {
    try {
      return read(text);
    } catch (error) {
      throw error instanceof OptionValueError ? new InvalidArgumentError(error.message) : error;
    }
  };
}

function declareCommands(context: CliContext, choose: (action: Action) => void): Command {
  const program = new Command("leafmesh")
    .description("Agents that can ask a device to act, and learn the truth about what happened.")
    .version(version, "-v, --version")
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
    })
    .exitOverride()
    .showHelpAfterError("(leafmesh --help lists commands and options)")
    .showSuggestionAfterError()
    .addHelpText(
      "after",
      `
Examples:
  $ leafmesh new my-mesh && cd my-mesh     a mesh.yaml that works, with its schema for the editor
  $ leafmesh validate                      every mistake at once, with its place and its cure
  $ leafmesh run                           start the mesh; it reloads when mesh.yaml changes
  $ leafmesh chat --device phone-7         talk to it, with a simulated phone attached

Exit codes: 0 it worked · 1 it was tried and did not · 2 the command line was wrong · 3 mesh.yaml is not valid`,
    );

  program
    .command("run")
    .description("run a mesh")
    .argument("[file]", "the mesh file", "mesh.yaml")
    .option("--host <address>", "address to listen on (default: server.host)")
    .option("--port <number>", "port to listen on, 0 for any free one (default: server.port)", asArgument(port))
    .option(
      "--advertise-url <address>",
      "where devices reach this very process, when server.public_url leads to any of several",
      asArgument(webAddress),
    )
    .option("--no-watch", "do not reload when the file changes")
    .option(
      "--grace <seconds>",
      "how long a stop waits for what is under way",
      asArgument(wholeNumber(0, LARGEST_GRACE_S)),
      DEFAULT_GRACE_S,
    )
    .addOption(new Option("--log-level <level>", "what is logged").choices(LOG_LEVELS))
    .addOption(new Option("--log-format <format>", "how it is logged").choices(LOG_FORMATS))
    .option("--max-config-size <bytes>", "largest mesh file", asArgument(wholeNumber(1, LARGEST_MESH_FILE_BYTES)))
    .option("--json", "one JSON line per event (ready, reloaded, reload_refused, stopped)")
    .addHelpText(
      "after",
      `
Examples:
  $ leafmesh run
  $ leafmesh run meshes/support.yaml --port 8080
  $ LEAFMESH_SECRET_KEY=$(openssl rand -base64 32) leafmesh run     seal push tokens with a key of your own`,
    )
    .action((file: string, options) =>
      choose(async () => (await import("./commands/run.ts")).run({ file, ...options }, context)),
    );

  program
    .command("validate")
    .description("check a mesh file: every mistake at once, exit 3 if there is one")
    .argument("[file]", "the mesh file", "mesh.yaml")
    .option("--json", "diagnostics as JSON")
    .option(
      "--check",
      "also ask each connection's service whether it works, ringing nobody; exit 1 if one is not proven",
    )
    .option("--max-config-size <bytes>", "largest mesh file", asArgument(wholeNumber(1, LARGEST_MESH_FILE_BYTES)))
    .action((file: string, options) =>
      choose(async () => {
        const [{ validate }, { providerRegistry }] = await Promise.all([
          import("./commands/validate.ts"),
          import("./registry.ts"),
        ]);
        return validate({ file, ...options }, context, await providerRegistry());
      }),
    );

  program
    .command("migrate")
    .description("bring the store's tables up to date; run does it as well when it starts")
    .argument("[file]", "the mesh file", "mesh.yaml")
    .option("--json", "as JSON")
    .action((file: string, options) =>
      choose(async () => (await import("./commands/migrate.ts")).migrate({ file, ...options }, context)),
    );

  program
    .command("schema")
    .description("print the JSON Schema of mesh.yaml, for editors")
    .option("--out <file>", "write it to a file instead")
    .action((options) =>
      choose(async () => {
        const [{ schema }, { providerRegistry }] = await Promise.all([
          import("./commands/schema.ts"),
          import("./registry.ts"),
        ]);
        return schema(options, context, await providerRegistry());
      }),
    );

  program
    .command("new")
    .description("write a mesh.yaml to start from, with its schema for the editor")
    .argument("[folder]", "where", ".")
    .option("--force", "overwrite what is there")
    .action((folder: string, options) =>
      choose(async () => {
        const [{ newMesh }, { providerRegistry }] = await Promise.all([
          import("./commands/new.ts"),
          import("./registry.ts"),
        ]);
        return newMesh({ folder, ...options }, context, await providerRegistry());
      }),
    );

  program
    .command("graph")
    .description("draw the mesh as a Mermaid flowchart")
    .argument("[file]", "the mesh file", "mesh.yaml")
    .action((file: string, options) =>
      choose(async () => {
        const [{ graph }, { providerRegistry }] = await Promise.all([
          import("./commands/graph.ts"),
          import("./registry.ts"),
        ]);
        return graph({ file, ...options }, context, await providerRegistry());
      }),
    );

  program
    .command("providers")
    .description("list the notifiers and rooms that a connection may name, with their fields")
    .option("--json", "as JSON")
    .action((options) =>
      choose(async () => {
        const [{ listProviders }, { providerRegistry }] = await Promise.all([
          import("./commands/providers.ts"),
          import("./registry.ts"),
        ]);
        return listProviders(options, context, await providerRegistry());
      }),
    );

  withApi(
    program
      .command("chat")
      .description("talk to a running mesh and see its asks as they happen")
      .option("--message <text>", "send one message and exit")
      .option("--session <id>", "continue a conversation")
      .option("--entry-point <name>", "where a new conversation enters the mesh")
      .option("--device <id>", "attach a simulated device under this id")
      .option("--behave <how>", "what the simulated device does (see leafmesh device --help)")
      .option("--device-id <id>", "a real device, with --push-token")
      .option("--push-token <token>", "where the notifier reaches it")
      .option("--json", "one JSON line per frame")
      .addHelpText(
        "after",
        `
Examples:
  $ leafmesh chat --device phone-7
  $ leafmesh chat --device phone-7 --behave decline --message "Is my battery OK?"
  $ leafmesh chat --device-id phone-7 --push-token leafmesh/phone-7/connect`,
      ),
  ).action((options) => choose(async () => (await import("./commands/chat.ts")).chat(options, context)));

  program
    .command("device")
    .description("be a simulated device: rung, asked, and as obedient as you say")
    .option("--mesh-url <address>", "the mesh (default: http://127.0.0.1:18820, unless --mqtt is given)")
    .option("--id <id>", "the device's id", "phone-7")
    .option("--token <token>", "the push token that the request brings for it", "...")
    .option("--mqtt <address>", "be rung over this broker instead, with --topic")
    .option("--topic <topic>", "the ring topic, which is the push token then")
    .option("--username <name>", "the device's login at the broker")
    .option("--password <password>", "its password")
    .option("--mesh-key <file>", "the mesh's public keys, from leafmesh keys show --json (default: the mesh is asked)")
    .option("--behave <how>", "what it does when it is asked, see below", "done")
    .option("--battery <percent>", "what battery.read answers", asArgument(wholeNumber(0, 100)), 71)
    .option("--ledger <file>", "remember asks in this file, over restarts (default: in memory)")
    .option("--undeclared", "do not tell the mesh what it can do")
    .option("--json", "one JSON line per event")
    .addHelpText(
      "after",
      `
Ways to behave:
  done, fail, decline, approve-later    the four answers that a device gives
  ignore, late=<ms>, oversize, twice    no answer, a late one, one that is too large, the same one twice
  no-join, join-late=<ms>, not-allowed  it does not join, joins late, or the person does not allow it
  drop, drop=<ms>                       its link is lost after it accepted, for good or for so long
  crash-after-accepted                  it is killed before it acts
  crash-after-acted                     it is killed before it answers

Examples:
  $ leafmesh device
  $ leafmesh device --id tablet-2 --token secret-of-tablet-2 --behave late=5000
  $ leafmesh device --mqtt mqtt://127.0.0.1:1883 --topic leafmesh/phone-7/connect`,
    )
    .action((options) => choose(async () => (await import("./commands/device.ts")).device(options, context)));

  const rooms = program.command("rooms").description("run a LeafMesh room service, or judge one");
  rooms
    .command("serve")
    .description("a room service of its own: rooms outlive the mesh's process")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("--port <number>", "port to listen on, 0 for any free one", asArgument(port), 18_821)
    .option("--key <key...>", "API keys of meshes, beside those of LEAFMESH_ROOM_KEYS")
    .option("--public-url <address>", "https address at which meshes and devices reach it")
    .option("--idle <seconds>", "silence after which a client is pinged", asArgument(seconds(0.1, 3600)))
    .option("--grace <seconds>", "how long a lost client may come back", asArgument(seconds(0.1, 3600)))
    .addOption(new Option("--log-level <level>", "what is logged").choices(LOG_LEVELS))
    .option("--json", "one JSON line per event (ready, stopped)")
    .addHelpText(
      "after",
      `
Examples:
  $ LEAFMESH_ROOM_KEYS=$(openssl rand -hex 24) leafmesh rooms serve
  $ leafmesh rooms serve --host 0.0.0.0 --public-url https://rooms.example.com --key "$KEY"`,
    )
    .action((options) => choose(async () => (await import("./commands/rooms.ts")).roomsServe(options, context)));
  rooms
    .command("conformance")
    .description("hold any room service against the protocol, from outside")
    .requiredOption("--url <address>", "base URL of the service")
    .option("--key <key>", "an API key of the service (default: the first of LEAFMESH_ROOM_KEYS)")
    .option("--only <ids...>", "ids of tests, or beginnings of ids, such as W or L2")
    .option("--json", "the report as JSON")
    .addHelpText(
      "after",
      `
Examples:
  $ leafmesh rooms conformance --url http://127.0.0.1:18821 --key "$KEY"
  $ leafmesh rooms conformance --url https://rooms.example.com --key "$KEY" --only L T3`,
    )
    .action((options) => choose(async () => (await import("./commands/rooms.ts")).roomsConformance(options, context)));

  const asks = program.command("asks").description("see what devices were asked, and what came of it");
  withApi(
    asks
      .command("list", { isDefault: true })
      .description("the newest asks")
      .option("--session <id>", "of one conversation")
      .option("--open", "only those that wait")
      .option("--limit <number>", "how many", asArgument(wholeNumber(1, 200)), 20)
      .option("--json", "as JSON"),
  ).action((options) => choose(async () => (await import("./commands/asks.ts")).listAsks(options, context)));
  withApi(
    asks
      .command("show")
      .description("one ask with its timeline")
      .argument("<ask>", "its id")
      .option("--json", "as JSON"),
  ).action((ask: string, options) =>
    choose(async () => (await import("./commands/asks.ts")).showAsk(ask, options, context)),
  );
  withApi(asks.command("cancel").description("end an ask that waits").argument("<ask>", "its id")).action(
    (ask: string, options) => choose(async () => (await import("./commands/asks.ts")).cancelAsk(ask, options, context)),
  );

  const keys = program
    .command("keys")
    .description("the keys by which devices recognise the mesh, and those for web push");
  withApi(
    keys.command("show", { isDefault: true }).description("print the public keys").option("--json", "as JSON"),
  ).action((options) => choose(async () => (await import("./commands/keys.ts")).showKeys(options, context)));
  keys
    .command("webpush")
    .description("make a VAPID key pair for the notifier webpush, and print it")
    .option("--json", "as JSON")
    .action((options) =>
      choose(async () => (await import("./commands/webpush-keys.ts")).webpushKeys(options, context)),
    );

  return program;
}

/** Options of every command that talks to a running mesh. */
function withApi(command: Command): Command {
  return command
    .option("--url <address>", "the mesh (default: LEAFMESH_URL, else http://127.0.0.1:18820)")
    .option("--key <key>", "its API key (default: LEAFMESH_API_KEY)");
}
