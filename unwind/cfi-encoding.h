/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers the ways in which .eh_frame writes addresses; elfutils' dwarf.h is not everywhere. */
#pragma once

/* Source: Linux Standard Base 5.0, chapter 10.5 "DWARF Extensions" */
enum
{
  DW_EH_PE_absptr = 0x00,
  DW_EH_PE_uleb128 = 0x01,
  DW_EH_PE_udata2 = 0x02,
  DW_EH_PE_udata4 = 0x03,
  DW_EH_PE_udata8 = 0x04,
  DW_EH_PE_sleb128 = 0x09,
  DW_EH_PE_sdata2 = 0x0a,
  DW_EH_PE_sdata4 = 0x0b,
  DW_EH_PE_sdata8 = 0x0c,
  DW_EH_PE_pcrel = 0x10,
  DW_EH_PE_datarel = 0x30,
  DW_EH_PE_aligned = 0x50,
};
