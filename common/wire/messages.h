// Every message of the hvdrun protocol.
#pragma once

#include "common/base_messages.h"
#include "common/horovod_messages.h"
#include "common/job_messages.h"
#include "common/output_messages.h"
#include "common/rendezvous_messages.h"
#include "common/stall_messages.h"
#include "common/status_messages.h"
#include "common/timeline_messages.h"
