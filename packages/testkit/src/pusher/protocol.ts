/** What travels over the double's socket, in so far as tests speak of it. */

export const MAX_DATA_BYTES = 10_240;

/** As Pusher tells it over the socket. */
export interface PusherFault {
  readonly code: number | null;
  readonly message: string;
}

export interface ClientEvent {
  readonly channel: string;
  readonly name: string;
  readonly data: unknown;
  readonly userId: string | undefined;
}

/** The sender's id is Pusher's word. */
export function clientEventMessage({ channel, name, data, userId }: ClientEvent): object {
  return { event: name, channel, data, ...(userId === undefined ? {} : { user_id: userId }) };
}
