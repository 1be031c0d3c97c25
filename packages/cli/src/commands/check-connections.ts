/** The test on save for every connection of a mesh file, without running the mesh. Rings nobody. */
import type { Mesh } from "@leafmesh/core";
import { type ConnectionCheck, createConnectionPool } from "@leafmesh/device-action";
import { createDirectHub } from "@leafmesh/notifiers";
import { randomId, silentLogger, systemClock } from "@leafmesh/protocol";
import { createRoomService } from "@leafmesh/room-service";
import type { CliContext } from "../context.ts";
import { palette, printable, writeLine } from "../output.ts";
import { providerDefinitions, withMore } from "../registry.ts";

const CHECK_TIMEOUT_MS = 20_000;

/** Asks every service whether its credential works; a service that does not answer in time is `readable`. */
export async function checkConnections(mesh: Mesh, context: CliContext): Promise<readonly ConnectionCheck[]> {
  const hub = createDirectHub({ clock: systemClock, logger: silentLogger });
  const roomService = createRoomService({ connectUrl: "ws://127.0.0.1/v1/connect" });
  const builtIn = providerDefinitions({ ringer: () => hub, rooms: () => roomService });
  const pool = createConnectionPool({
    mesh,
    ...withMore(builtIn, context.injected?.providers),
    clock: systemClock,
    logger: silentLogger,
    newId: randomId,
    publicUrl: mesh.server.publicUrl,
    network: context.injected?.network,
  });
  const timeout = new AbortController();
  const timer = systemClock.schedule(CHECK_TIMEOUT_MS, () => timeout.abort());
  try {
    return await pool.checkAll(AbortSignal.any([context.signal, timeout.signal]));
  } finally {
    timer.cancel();
    await pool.close();
    await Promise.all([hub.close(), roomService.close()]);
  }
}

/** One line a verdict. What a service said of itself is for the eye alone: it cannot steer the terminal. */
export function writeChecks(checks: readonly ConnectionCheck[], context: CliContext): void {
  const colors = palette(context);
  const paint = { active: colors.green, failing: colors.red, readable: colors.yellow };
  for (const { connection, face, result } of checks) {
    const reason = result.status === "active" ? "" : `: ${printable(result.reason)}`;
    writeLine(context.stdout, `${connection} (${face}) ${paint[result.status](result.status)}${reason}`);
  }
}
