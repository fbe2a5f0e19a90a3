/* Every command, each defined in its own file cmd_*.c. */
#ifndef IQ_HARNESS_COMMANDS_H
#define IQ_HARNESS_COMMANDS_H

#include "harness/cli/cli.h"

extern const struct iq_command iq_cmd_completion_bash;
extern const struct iq_command iq_cmd_doctor;
extern const struct iq_command iq_cmd_model_fetch;

#endif
