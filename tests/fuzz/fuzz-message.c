/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sends foreign packets to either end of each connection between front, broker and worker. */
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/channel.h"
#include "daemon/base/socket.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/packet.h"
#include "tests/lib/packet-socket.h"

#define MAX_PACKETS 64

enum
{
  WAY = 7,          /* its number, of N_WAYS */
  ANSWERS = 1 << 3, /* each message with one of its own */
  LEAVES = 1 << 4,  /* the peer, before its messages are read */
  FREES = 1 << 5,   /* the channel, within its callback */
  N_WAYS = 6,
};

typedef struct
{
  SondeChannel *channel;
  SondeMessageWay way;
  unsigned how;
  unsigned n_closed;
} End;

static void
on_message (SondeChannel *channel,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
  End *end = user_data;

  if (end->n_closed > 0 || !packet_is_good (message, message->size, n_fds, end->way))
    abort ();
  if (n_fds > 0)
    sonde_clear_fd (&fds[0]); /* as one that is taken */
  if (end->how & ANSWERS)
    sonde_channel_send_simple (channel, SONDE_MESSAGE_REPORT, NULL);
  if (end->how & FREES)
    g_clear_pointer (&end->channel, sonde_channel_free);
}

static void
on_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  End *end = user_data;

  if (++end->n_closed > 1 || (error != NULL && !g_utf8_validate (error->message, -1, NULL)))
    abort ();
}

static void
run (void)
{
  while (g_main_context_iteration (NULL, FALSE))
    continue;
}

static void
converse (End *end, int peer, Input *input)
{
  sonde_autofd int passed = open ("/dev/null", O_RDONLY | O_CLOEXEC);
  int fds[PACKET_MAX_FDS]; /* the same one each time */
  Packet packet;

  for (unsigned i = 0; i < PACKET_MAX_FDS; i++)
    fds[i] = passed;

  for (unsigned i = 0; i < MAX_PACKETS && input->left > 0; i++)
    {
      packet_take (&packet, input);
      for (unsigned way = 1; way <= SONDE_WAY_WORKER_TO_BROKER; way <<= 1)
        packet_is_good (packet.bytes, packet.size_bytes, packet.n_fds, (SondeMessageWay) way);
      packet_socket_send (peer, packet.bytes, packet.size_bytes, fds, packet.n_fds, MSG_DONTWAIT);
      if ((end->how & LEAVES) == 0)
        run ();
    }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const SondeChannelHandler handler = { .message = on_message, .closed = on_closed };
  Input input = { data, size };
  End end = { .how = input_take_byte (&input) };
  unsigned before;
  int fds[2];

  end.way = (SondeMessageWay) (1 << (end.how & WAY) % N_WAYS);
  run (); /* GLib's own descriptors are there */
  before = fuzz_count_fds ();
  if (!sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL))
    abort ();
  end.channel = sonde_channel_new (fds[0], end.way, &handler, &end);
  converse (&end, fds[1], &input);
  close (fds[1]);
  run ();
  if (end.channel != NULL && end.n_closed != 1)
    abort ();
  g_clear_pointer (&end.channel, sonde_channel_free);
  if (fuzz_count_fds () != before)
    abort ();

  return 0;
}
