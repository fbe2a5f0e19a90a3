/* Every command, each defined in its own file cmd_*.c. */
#ifndef IQ_HARNESS_COMMANDS_H
#define IQ_HARNESS_COMMANDS_H

#include "harness/cli/cli.h"

extern const struct iq_command iq_cmd_campaign;
extern const struct iq_command iq_cmd_canary_prompts;
extern const struct iq_command iq_cmd_canary_search;
extern const struct iq_command iq_cmd_canary_tasks;
extern const struct iq_command iq_cmd_completion_bash;
extern const struct iq_command iq_cmd_diff;
extern const struct iq_command iq_cmd_doctor;
extern const struct iq_command iq_cmd_faults_algorithms;
extern const struct iq_command iq_cmd_faults_fields;
extern const struct iq_command iq_cmd_faults_list;
extern const struct iq_command iq_cmd_faults_show;
extern const struct iq_command iq_cmd_model_eval;
extern const struct iq_command iq_cmd_model_fetch;
extern const struct iq_command iq_cmd_model_info;
extern const struct iq_command iq_cmd_model_perplexity;
extern const struct iq_command iq_cmd_model_train;
extern const struct iq_command iq_cmd_model_tokenize;
extern const struct iq_command iq_cmd_plan_check;
extern const struct iq_command iq_cmd_record;
extern const struct iq_command iq_cmd_replay;
extern const struct iq_command iq_cmd_report_campaign;
extern const struct iq_command iq_cmd_run;
extern const struct iq_command iq_cmd_store_export;
extern const struct iq_command iq_cmd_store_import;
extern const struct iq_command iq_cmd_store_ls;
extern const struct iq_command iq_cmd_store_rm;
extern const struct iq_command iq_cmd_store_show;
extern const struct iq_command iq_cmd_store_verify;
extern const struct iq_command iq_cmd_study_twins;

#endif
