<?php
// A page of a shop: it greets, and asks the database for the orders of one customer, for which there is no index.
function orders_of(PDO $database, int $customer): array
{
    $statement = $database->query("select count(*), sum(price) from orders where customer = $customer");
    return $statement->fetch(PDO::FETCH_NUM);
}

$database = new PDO('pgsql:@DATABASE@', options: [PDO::ATTR_PERSISTENT => true]);
[$count, $sum] = orders_of($database, random_int(1, 1000));
echo "<!doctype html><title>Orders</title><p>$count orders, $sum in all.\n";
