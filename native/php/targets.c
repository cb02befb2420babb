/*
 * The functions of other extensions whose calls are transactions where arm.automatic is on. A method and the function that
 * does the same have one name. What only begins something (pg_send_query) is not among them: its time is not that of the
 * call. What curl sends side by side is in outgoing.c.
 */

#include "php_arm.h"

const arm_target php_arm_targets[] = {
    { "pdo", "__construct", "PDO::__construct", TELLS_NOTHING },
    { "pdo", "query", "PDO::query", TELLS_ARGUMENT },
    { "pdo", "exec", "PDO::exec", TELLS_ARGUMENT },
    { "pdo", "prepare", "PDO::prepare", TELLS_ARGUMENT },
    { "pdo", "begintransaction", "PDO::beginTransaction", TELLS_NOTHING },
    { "pdo", "commit", "PDO::commit", TELLS_NOTHING },
    { "pdo", "rollback", "PDO::rollBack", TELLS_NOTHING },
    { "pdostatement", "execute", "PDOStatement::execute", TELLS_PROPERTY },

    { "mysqli", "__construct", "mysqli::__construct", TELLS_NOTHING },
    { "mysqli", "connect", "mysqli::__construct", TELLS_NOTHING },
    { NULL, "mysqli_connect", "mysqli::__construct", TELLS_NOTHING },
    { "mysqli", "real_connect", "mysqli::real_connect", TELLS_NOTHING },
    { NULL, "mysqli_real_connect", "mysqli::real_connect", TELLS_NOTHING },
    { "mysqli", "query", "mysqli::query", TELLS_ARGUMENT },
    { NULL, "mysqli_query", "mysqli::query", TELLS_ARGUMENT },
    { "mysqli", "real_query", "mysqli::real_query", TELLS_ARGUMENT },
    { NULL, "mysqli_real_query", "mysqli::real_query", TELLS_ARGUMENT },
    { "mysqli", "multi_query", "mysqli::multi_query", TELLS_ARGUMENT },
    { NULL, "mysqli_multi_query", "mysqli::multi_query", TELLS_ARGUMENT },
    { "mysqli", "execute_query", "mysqli::execute_query", TELLS_ARGUMENT },
    { NULL, "mysqli_execute_query", "mysqli::execute_query", TELLS_ARGUMENT },
    { "mysqli", "prepare", "mysqli::prepare", TELLS_ARGUMENT },
    { NULL, "mysqli_prepare", "mysqli::prepare", TELLS_ARGUMENT },
    { "mysqli", "commit", "mysqli::commit", TELLS_NOTHING },
    { NULL, "mysqli_commit", "mysqli::commit", TELLS_NOTHING },
    { "mysqli", "rollback", "mysqli::rollback", TELLS_NOTHING },
    { NULL, "mysqli_rollback", "mysqli::rollback", TELLS_NOTHING },
    { "mysqli_stmt", "execute", "mysqli_stmt::execute", TELLS_NOTHING },
    { NULL, "mysqli_stmt_execute", "mysqli_stmt::execute", TELLS_NOTHING },

    { NULL, "pg_connect", "pg_connect", TELLS_NOTHING },
    { NULL, "pg_pconnect", "pg_pconnect", TELLS_NOTHING },
    { NULL, "pg_query", "pg_query", TELLS_ARGUMENT },
    { NULL, "pg_query_params", "pg_query_params", TELLS_ARGUMENT },
    { NULL, "pg_prepare", "pg_prepare", TELLS_SECOND },
    { NULL, "pg_execute", "pg_execute", TELLS_ARGUMENT },

    { NULL, "curl_exec", "curl_exec", TELLS_CURL },
};

const size_t php_arm_target_count = sizeof(php_arm_targets) / sizeof(php_arm_targets[0]);
