/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines and inlined functions of one ELF file with DWARF. */
#include "client/debug-lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>

#include "client/fd.h"

#define MAX_RANGES 4000000 /* of all units */

/* Not all compilers write .debug_aranges, so the ranges are taken from the units. */
typedef struct
{
  guint64 begin;
  guint64 end;
  Dwarf_Off unit;
} Range;

struct SondeDebugLines
{
  int fd;
  Dwarf *dwarf;
  GArray *ranges; /* Range, by begin */
};

void
sonde_source_frame_clear (SondeSourceFrame *frame)
{
  g_clear_pointer (&frame->function, g_free);
  g_clear_pointer (&frame->file, g_free);
}

static int
compare_ranges (gconstpointer a, gconstpointer b)
{
  const Range *left = a;
  const Range *right = b;

  return left->begin < right->begin ? -1 : left->begin > right->begin;
}

static void
collect_unit (SondeDebugLines *self, Dwarf_Die *unit)
{
  Dwarf_Addr base;
  Dwarf_Addr begin;
  Dwarf_Addr end;
  ptrdiff_t offset = 0;

  while (self->ranges->len < MAX_RANGES
         && (offset = dwarf_ranges (unit, offset, &base, &begin, &end)) > 0)
    {
      Range range = { begin, end, dwarf_dieoffset (unit) };

      if (begin < end)
        g_array_append_val (self->ranges, range);
    }
}

static void
collect_ranges (SondeDebugLines *self)
{
  Dwarf_CU *unit = NULL;
  Dwarf_Die die;
  guint8 type;

  while (dwarf_get_units (self->dwarf, unit, &unit, NULL, &type, &die, NULL) == 0)
    if (type == DW_UT_compile || type == DW_UT_skeleton)
      collect_unit (self, &die);
  g_array_sort (self->ranges, compare_ranges);
}

SondeDebugLines *
sonde_debug_lines_new (int fd)
{
  g_autoptr (SondeDebugLines) self = g_new0 (SondeDebugLines, 1);

  self->fd = fd;
  self->ranges = g_array_new (FALSE, FALSE, sizeof (Range));
  self->dwarf = dwarf_begin (fd, DWARF_C_READ);
  if (self->dwarf == NULL)
    return NULL;
  collect_ranges (self);
  return self->ranges->len > 0 ? g_steal_pointer (&self) : NULL;
}

void
sonde_debug_lines_free (SondeDebugLines *self)
{
  if (self == NULL)
    return;
  if (self->dwarf != NULL)
    dwarf_end (self->dwarf);
  g_array_unref (self->ranges);
  sonde_clear_fd (&self->fd);
  g_free (self);
}

static gboolean
find_unit (SondeDebugLines *self, guint64 vaddr, Dwarf_Die *unit)
{
  guint low = 0;
  guint high = self->ranges->len;
  const Range *range;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (g_array_index (self->ranges, Range, middle).begin <= vaddr)
        low = middle + 1;
      else
        high = middle;
    }
  if (low == 0)
    return FALSE;
  range = &g_array_index (self->ranges, Range, low - 1);
  return vaddr < range->end && dwarf_offdie (self->dwarf, range->unit, unit) != NULL;
}

static char *
dup_base_name (const char *path)
{
  return path != NULL ? g_path_get_basename (path) : NULL;
}

/* Linkage names tell overloads apart; languages without them have plain names. */
static char *
dup_function_name (Dwarf_Die *die)
{
  Dwarf_Attribute attribute;
  const char *name;

  if (dwarf_attr_integrate (die, DW_AT_linkage_name, &attribute) == NULL
      && dwarf_attr_integrate (die, DW_AT_MIPS_linkage_name, &attribute) == NULL
      && dwarf_attr_integrate (die, DW_AT_name, &attribute) == NULL)
    return NULL;
  name = dwarf_formstring (&attribute);
  return g_strdup (name);
}

static void
set_address_line (SondeSourceFrame *frame, Dwarf_Die *unit, guint64 vaddr)
{
  Dwarf_Line *line = dwarf_getsrc_die (unit, vaddr);
  int number = 0;

  if (line == NULL)
    return;
  frame->file = dup_base_name (dwarf_linesrc (line, NULL, NULL));
  if (dwarf_lineno (line, &number) == 0 && number > 0)
    frame->line = (guint) number;
}

/* Where the function that @inlined stands for is called. */
static void
set_call_line (SondeSourceFrame *frame, Dwarf_Die *unit, Dwarf_Die *inlined)
{
  Dwarf_Attribute attribute;
  Dwarf_Files *files;
  Dwarf_Word value;
  size_t n_files;

  if (dwarf_formudata (dwarf_attr (inlined, DW_AT_call_line, &attribute), &value) == 0
      && value <= G_MAXINT)
    frame->line = (guint) value;
  if (dwarf_formudata (dwarf_attr (inlined, DW_AT_call_file, &attribute), &value) == 0
      && dwarf_getsrcfiles (unit, &files, &n_files) == 0 && value < n_files)
    frame->file = dup_base_name (dwarf_filesrc (files, value, NULL, NULL));
}

/* From @scopes on, the innermost first, up to the function that is not inlined. */
static void
collect_frames (GArray *frames, Dwarf_Die *unit, guint64 vaddr, Dwarf_Die *scopes, int n_scopes)
{
  Dwarf_Die *inlined = NULL;

  for (int i = 0; i < n_scopes && frames->len < SONDE_MAX_INLINES; i++)
    {
      int tag = dwarf_tag (&scopes[i]);
      SondeSourceFrame frame = { 0 };

      if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram && tag != DW_TAG_entry_point)
        continue;
      frame.function = dup_function_name (&scopes[i]);
      if (inlined == NULL)
        set_address_line (&frame, unit, vaddr);
      else
        set_call_line (&frame, unit, inlined);
      g_array_append_val (frames, frame);
      if (tag != DW_TAG_inlined_subroutine)
        return;
      inlined = &scopes[i];
    }
}

GArray *
sonde_debug_lines_lookup (SondeDebugLines *self, guint64 vaddr)
{
  GArray *frames = g_array_new (FALSE, FALSE, sizeof (SondeSourceFrame));
  Dwarf_Die unit_memory;
  Dwarf_Die unit;
  Dwarf_Die *by_address = NULL;
  Dwarf_Die *around = NULL;
  int n_scopes;

  g_array_set_clear_func (frames, (GDestroyNotify) sonde_source_frame_clear);
  if (!find_unit (self, vaddr, &unit_memory))
    return frames;
  /* of split DWARF the tree is in another file */
  if (dwarf_cu_info (unit_memory.cu, NULL, NULL, NULL, &unit, NULL, NULL, NULL) != 0
      || dwarf_tag (&unit) == DW_TAG_invalid)
    unit = unit_memory;

  n_scopes = dwarf_getscopes (&unit, vaddr, &by_address);
  /* behind an inlined function stand the scopes of its definition: ask for those of this place */
  if (n_scopes > 0)
    n_scopes = dwarf_getscopes_die (&by_address[0], &around);
  if (n_scopes > 0)
    collect_frames (frames, &unit_memory, vaddr, around, n_scopes);
  free (around);
  free (by_address);

  if (frames->len == 0)
    {
      SondeSourceFrame frame = { 0 };

      set_address_line (&frame, &unit_memory, vaddr);
      if (frame.file != NULL)
        g_array_append_val (frames, frame);
    }
  return frames;
}
