/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a broker leaves to the one of the next sonded. */
#include "daemon/broker/broker.h"

void
sonde_broker_record_init (SondeBrokerRecord *self)
{
  *self = (SondeBrokerRecord){
    .targets = g_array_new (FALSE, FALSE, sizeof (SondeRecordTarget)),
    .named = g_array_new (FALSE, FALSE, sizeof (SondeRecordTarget)),
    .rings = g_array_new (FALSE, FALSE, sizeof (SondeRecordRing)),
    .pulses = g_array_new (FALSE, FALSE, sizeof (SondeRecordPulse)),
  };
}

void
sonde_broker_record_clear (SondeBrokerRecord *self)
{
  g_clear_pointer (&self->targets, g_array_unref);
  g_clear_pointer (&self->named, g_array_unref);
  g_clear_pointer (&self->rings, g_array_unref);
  g_clear_pointer (&self->pulses, g_array_unref);
  g_clear_pointer (&self->group, g_free);
  g_clear_pointer (&self->note, g_free);
}
