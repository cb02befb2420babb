<?php
/** A page of a small shop: a random kind of its items with what they cost, and three items that others liked. */
function page(): void
{
    $database = new PDO('pgsql:host=10.117.5.2;dbname=postgres', 'postgres', null, [
        PDO::ATTR_PERSISTENT => true,
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
    ]);
    if (isset($_GET['wait'])) {
        $waiting = $database->prepare('SELECT pg_sleep(? / 1000.0)');
        $waiting->execute([(int) $_GET['wait']]);
    }
    $listing = $database->prepare(
        'SELECT i.id, i.name, i.price, i.words, k.name AS kind FROM item i JOIN kind k ON k.id = i.kind WHERE k.id = ? ORDER BY i.price'
    );
    $listing->execute([mt_rand(1, 500)]);
    echo "<!DOCTYPE html>\n<title>A shop</title>\n<table>\n";
    $sum = 0.0;
    foreach ($listing as $item) {
        $sum += (float) $item['price'];
        printf(
            "<tr><td>%d<td>%s<td>%s<td>%s<td>%.2f\n",
            $item['id'],
            htmlspecialchars($item['kind']),
            htmlspecialchars($item['name']),
            htmlspecialchars(ucwords(wordwrap($item['words'], 20, "\n", true))),
            $item['price']
        );
    }
    printf("</table>\n<p>%.2f\n<ul>\n", $sum);
    $one = $database->prepare('SELECT name, price FROM item WHERE id = ?');
    for ($liked = 0; $liked < 3; $liked++) {
        $one->execute([mt_rand(1, 10000)]);
        $item = $one->fetch();
        printf("<li>%s, %.2f\n", htmlspecialchars($item['name']), $item['price']);
    }
    echo "</ul>\n";
}
