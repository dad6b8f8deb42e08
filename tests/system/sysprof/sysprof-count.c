/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads a capture with the reader of Debian's libsysprof-capture-4 and counts its frames by type.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include <sysprof-capture.h>

#include "protocol/frame-check.h"

/* The typed reader of the frame's type, so that the library's own checks all run. */
static bool
read_frame (SysprofCaptureReader *reader, SysprofCaptureFrameType type)
{
  switch (type)
    {
    case SYSPROF_CAPTURE_FRAME_TIMESTAMP:
      return sysprof_capture_reader_read_timestamp (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_SAMPLE:
      return sysprof_capture_reader_read_sample (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_MAP:
      return sysprof_capture_reader_read_map (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_PROCESS:
      return sysprof_capture_reader_read_process (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_FORK:
      return sysprof_capture_reader_read_fork (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_EXIT:
      return sysprof_capture_reader_read_exit (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_JITMAP:
      return sysprof_capture_reader_read_jitmap (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_CTRDEF:
      return sysprof_capture_reader_read_counter_define (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_CTRSET:
      return sysprof_capture_reader_read_counter_set (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_MARK:
      return sysprof_capture_reader_read_mark (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_METADATA:
      return sysprof_capture_reader_read_metadata (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_LOG:
      return sysprof_capture_reader_read_log (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_FILE_CHUNK:
      return sysprof_capture_reader_read_file (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_ALLOCATION:
      return sysprof_capture_reader_read_allocation (reader) != NULL;
    case SYSPROF_CAPTURE_FRAME_OVERLAY:
      return sysprof_capture_reader_read_overlay (reader) != NULL;
    default:
      return false;
    }
}

/* Counts until the library stops; it does not say why it does.
 *
 * Returns: bytes of the capture that it has read */
static uint64_t
count_frames (SysprofCaptureReader *reader, uint64_t counts[SONDE_FRAME_LAST])
{
  uint64_t n_bytes = sizeof (SondeFileHeader);
  SysprofCaptureFrame frame;

  while (sysprof_capture_reader_peek_frame (reader, &frame) && frame.type > 0
         && frame.type < SONDE_FRAME_LAST
         && read_frame (reader, (SysprofCaptureFrameType) frame.type))
    {
      counts[frame.type]++;
      n_bytes += frame.len;
    }

  return n_bytes;
}

int
main (int argc, char *argv[])
{
  uint64_t counts[SONDE_FRAME_LAST] = { 0 };
  SysprofCaptureReader *reader;
  uint64_t n_bytes;
  struct stat st;

  if (argc != 2)
    {
      fprintf (stderr, "usage: sysprof-count CAPTURE\n");
      return 2;
    }

  if (stat (argv[1], &st) < 0)
    {
      perror (argv[1]);
      return 2;
    }

  reader = sysprof_capture_reader_new (argv[1]);
  if (reader == NULL)
    {
      fprintf (stderr, "%s: refused by libsysprof-capture\n", argv[1]);
      return 1;
    }

  n_bytes = count_frames (reader, counts);
  sysprof_capture_reader_unref (reader);

  for (unsigned type = 1; type < SONDE_FRAME_LAST; type++)
    if (counts[type] > 0)
      printf ("%s %" PRIu64 "\n", sonde_frame_type_to_string (type), counts[type]);

  if (n_bytes != (uint64_t) st.st_size)
    {
      fprintf (stderr, "%s: stopped at byte %" PRIu64 " of %" PRIu64 "\n", argv[1], n_bytes,
               (uint64_t) st.st_size);
      return 1;
    }

  return 0;
}
