// Every message of the hvdrun protocol.
#pragma once

#include "common/wire/base_messages.h"
#include "common/wire/elastic_messages.h"
#include "common/wire/file_messages.h"
#include "common/wire/horovod_messages.h"
#include "common/wire/job_messages.h"
#include "common/wire/output_messages.h"
#include "common/wire/rendezvous_messages.h"
#include "common/wire/stall_messages.h"
#include "common/wire/status_messages.h"
#include "common/wire/timeline_messages.h"
