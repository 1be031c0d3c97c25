/** Where the measured parties meet. */
export const DEVICE = "phone-7";
/** Rung by the mesh. */
export const RING_TOPIC = `leafmesh/${DEVICE}/connect`;
/** Rung by the bare clients. */
export const RAW_RING_TOPIC = `raw/${DEVICE}/connect`;
/** Request and reply over connections that are already open. */
export const ECHO = { request: "echo/request", reply: "echo/reply" } as const;

export function rawRoom(room: string): { down: string; up: string; presence: string } {
  const base = `raw/room/${room}/d/${DEVICE}`;
  return { down: `${base}/down`, up: `${base}/up`, presence: `${base}/presence` };
}

/** What both sides answer with. */
export const ANSWER = { level: 71, charging: false };
