#include "harness/cli/commands.h"

/* In the order of help; the commands of a group stand together. */
const struct iq_command *const iq_commands[] = {
    &iq_cmd_doctor,           &iq_cmd_model_fetch,
    &iq_cmd_model_info,       &iq_cmd_model_tokenize,
    &iq_cmd_model_perplexity, &iq_cmd_model_train,
    &iq_cmd_model_eval,       &iq_cmd_run,
    &iq_cmd_record,           &iq_cmd_diff,
    &iq_cmd_replay,           &iq_cmd_campaign,
    &iq_cmd_report_campaign,  &iq_cmd_study_twins,
    &iq_cmd_faults_list,      &iq_cmd_faults_show,
    &iq_cmd_faults_fields,    &iq_cmd_faults_algorithms,
    &iq_cmd_plan_check,       &iq_cmd_canary_tasks,
    &iq_cmd_canary_prompts,   &iq_cmd_canary_search,
    &iq_cmd_store_ls,         &iq_cmd_store_show,
    &iq_cmd_store_verify,     &iq_cmd_store_export,
    &iq_cmd_store_import,     &iq_cmd_store_rm,
    &iq_cmd_completion_bash,  NULL,
};
