/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The small symbol table that Fedora and others pack into stripped files. */
#include "client/names/packed-symbols.h"

#include <glib.h>
#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/base/fd.h"

#define BLOCK_SIZE 65536

/* Whether all of the @size_bytes at @offset of @fd were unpacked into @out. */
static gboolean
unpack (lzma_stream *stream, int fd, guint64 offset, guint64 size_bytes, int out)
{
  g_autofree guint8 *packed = g_malloc (BLOCK_SIZE);
  g_autofree guint8 *plain = g_malloc (BLOCK_SIZE);
  lzma_ret result = LZMA_OK;

  while (result == LZMA_OK && stream->total_out <= SONDE_PACKED_SYMBOLS_MAX_BYTES)
    {
      gsize n_plain;

      if (stream->avail_in == 0 && size_bytes > 0)
        {
          gssize n = pread (fd, packed, MIN (size_bytes, BLOCK_SIZE), (off_t) offset);

          if (n <= 0)
            return FALSE;
          stream->next_in = packed;
          stream->avail_in = (gsize) n;
          offset += (gsize) n;
          size_bytes -= (gsize) n;
        }
      stream->next_out = plain;
      stream->avail_out = BLOCK_SIZE;
      result = lzma_code (stream, size_bytes == 0 ? LZMA_FINISH : LZMA_RUN);
      n_plain = BLOCK_SIZE - stream->avail_out;
      if (write (out, plain, n_plain) != (gssize) n_plain)
        return FALSE;
    }
  return result == LZMA_STREAM_END;
}

int
sonde_packed_symbols_open (int fd, const SondeDebugReference *reference)
{
  lzma_stream stream = LZMA_STREAM_INIT;
  sonde_autofd int out = -1;
  gboolean is_whole;

  if (reference->packed_size == 0 || reference->packed_size > SONDE_PACKED_SYMBOLS_MAX_BYTES
      || lzma_stream_decoder (&stream, SONDE_PACKED_SYMBOLS_MAX_BYTES, 0) != LZMA_OK)
    return -1;
  out = memfd_create ("debugdata", MFD_CLOEXEC);
  is_whole
      = out >= 0 && unpack (&stream, fd, reference->packed_offset, reference->packed_size, out);
  lzma_end (&stream);
  return is_whole ? sonde_steal_fd (&out) : -1;
}
